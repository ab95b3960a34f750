"""The likely cause is read from the log, in one line with its way out."""

import pytest

from kilocard.launch.failure import likely_cause

LOGS = {
    "ModuleNotFoundError: No module named 'vllm'": "no vllm",
    "api_server.py: error: unrecognized arguments: --no-such-flag 7": "unknown flag --no-such-flag 7",
    "api_server.py: error: argument --dtype: invalid choice: 'float99'": "bad flag: --dtype",
    "OSError: [Errno 98] Address already in use": "port is taken",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "out of memory",
    "Free memory on device (3.1/79 GiB) is less than desired GPU memory utilization (0.9)": "out of memory",
    "To serve at least one request with the model's max seq len (8192), 0.18 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.06 GiB).": "too long for the KV cache",
    "User-specified max_model_len (100000) is greater than the derived max_model_len": "100000 is more",
    "RuntimeError: Cannot find any model weights with `/models/x`": "weights or configuration missing",
    "RuntimeError: operator torchvision::nms does not exist": "uninstall torchvision",
    "ERROR: ld.so: object '/x/libiomp5.so' from LD_PRELOAD cannot be preloaded": "libiomp5.so",
    "Total number of attention heads (9) must be divisible by tensor parallel size (2).": "does not divide",
    "OSError: [Errno 28] No space left on device": "disk is full",
}


@pytest.mark.parametrize("line", LOGS)
def test_known_causes_are_named(line: str) -> None:
    cause = likely_cause(f"INFO starting\n{line}\nINFO goodbye\n")
    assert LOGS[line] in cause
    assert "\n" not in cause
    assert "{detail}" not in cause


def test_an_unknown_cause_is_quoted() -> None:
    log = "(EngineCore pid=3) ERROR 11-29 14:10:08 [core.py:133] FrobError: the frob is off\nbye"
    assert likely_cause(log) == "FrobError: the frob is off"


def test_an_empty_log_is_said_to_name_no_cause() -> None:
    assert likely_cause("") == "no cause found in its log"


def test_a_warning_that_names_an_error_is_no_last_word() -> None:
    warned = (
        "(APIServer pid=7) WARNING 11-30 00:26:09 [system_utils.py:255] This can cause `OSError: [Errno 24]`"
    )
    assert likely_cause(warned) == "no cause found in its log"
