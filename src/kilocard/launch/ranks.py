"""The ranks of an engine, as its log names them, and the one that took the others along."""

from __future__ import annotations

import re
from collections.abc import Mapping

SPEAKER = re.compile(r"^\((?P<name>(?:Vllm)?Worker\S*) pid=(?P<pid>\d+)\) ", re.MULTILINE)
RAISED = re.compile(
    r"^(?P<speaker>\((?P<name>Worker\S*) pid=\d+\) )ERROR .*WorkerProc (?:hit an exception|failed)",
    re.MULTILINE,
)
DIED = re.compile(r"Worker proc (?P<name>\S+) died unexpectedly")
FRAME = re.compile(r'^ +File "(?:[^"]*/)?(?P<file>[^"/]+)", line (?P<line>\d+), in (?P<function>\S+)')
PREFIX = re.compile(r"^(\([^)]*\)\s)?((ERROR|INFO|WARNING)\s+\S+\s+\S+\s+\[[^\]]*\] ?)?")
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b(: .*)?$")


def rank_names(log: str) -> dict[int, str]:
    """The names of the worker processes by their ids, like `Worker_TP1`; one that two have gets a number."""
    last: dict[int, str] = {}
    for found in SPEAKER.finditer(log):
        if found["name"].startswith("Worker"):
            last[int(found["pid"])] = found["name"]
    shared = {name for name in last.values() if list(last.values()).count(name) > 1}
    of_a_name: dict[str, int] = {}
    for pid in sorted(last):
        name = last[pid]
        if name in shared:
            of_a_name[name] = of_a_name.get(name, -1) + 1
            last[pid] = f"{name}_{of_a_name[name]}"
    return last


def rank_failure(log: str) -> str:
    """Which rank failed, how, and what that means; empty where the log speaks of none."""
    if raised := RAISED.search(log):
        said = _last_exception(log[raised.start() :], raised["speaker"])
        return f"{raised['name']} failed, and every rank with it: {said}"
    if died := DIED.search(log):
        return (
            f"{_rank_of(died['name'], log)} died, and every rank with it: they are one fault domain, start "
            "the engine again; if nobody killed it, look for an out-of-memory kill in the kernel's log"
        )
    return ""


def plain_line(line: str) -> str:
    """A line of the log without who said it, when and where."""
    return PREFIX.sub("", line).rstrip()


def _rank_of(process_name: str, log: str) -> str:
    """What a process calls itself once it knows its rank: `VllmWorker-1` becomes `Worker_TP1`."""
    names: Mapping[int, str] = rank_names(log)
    for found in SPEAKER.finditer(log):
        if found["name"] == process_name:
            return names.get(int(found["pid"]), process_name)
    return process_name


def _last_exception(log: str, speaker: str) -> str:
    said, frame, place = "an exception without a word", "", ""
    for line in log.splitlines():
        if not line.startswith(speaker):
            continue
        text = plain_line(line)
        if found := FRAME.match(text):
            frame = f" in {found['function']} ({found['file']}, line {found['line']})"
        elif EXCEPTION.match(text):
            said, place = text, frame
    return said if ": " in said else said + place
