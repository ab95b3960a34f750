"""Mistakes about an engine's life: when it is ready, when it is dead, how it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilocard.deploy.lint.engine import Engine
from kilocard.deploy.lint.manifests import at, mapping
from kilocard.deploy.lint.world import Told

DEFAULT_GRACE_S = 30
LONG_START_S, BUSY_S = 300, 30
MOVING = frozenset({"", "latest", "main", "nightly", "stable", "dev"})


def nothing_says_when_it_is_ready(engine: Engine) -> Iterator[Told]:
    """Without readiness a pod gets requests from the moment its process exists."""
    if not engine.is_worker and "readinessProbe" not in engine.container:
        yield (
            "fault",
            "no readinessProbe: it is sent requests minutes before its weights are loaded, and while it "
            "ends; "
            "ask /v1/models or /health",
        )


def it_is_killed_while_it_loads(engine: Engine) -> Iterator[Told]:
    """A liveness probe that begins before the weights are loaded restarts it for ever."""
    live = mapping(engine.container.get("livenessProbe"))
    if not live or "startupProbe" in engine.container:
        return
    patience = _seconds(live, "initialDelaySeconds", 0) + _patience_s(live)
    if patience < LONG_START_S:
        yield (
            "fault",
            f"livenessProbe without startupProbe kills it after {patience:.0f} s, before a large model is "
            "loaded: it starts again and again; add a startupProbe, 10 s x 60",
        )


def it_starts_too_slowly_for_its_probe(engine: Engine) -> Iterator[Told]:
    """The startup probe's whole patience."""
    start = mapping(engine.container.get("startupProbe"))
    if start and _patience_s(start) + _seconds(start, "initialDelaySeconds", 0) < LONG_START_S:
        yield (
            "risk",
            f"startupProbe gives it {_patience_s(start):.0f} s: weights, graphs and warm-up take minutes; "
            "raise failureThreshold",
        )


def busy_is_taken_for_dead(engine: Engine) -> Iterator[Told]:
    """An engine with long prompts answers late."""
    live = mapping(engine.container.get("livenessProbe"))
    if live and _patience_s(live) < BUSY_S:
        yield (
            "risk",
            f"livenessProbe restarts it after {_patience_s(live):.0f} s without an answer: a busy engine "
            "is not "
            "dead, and its restart loses all that it holds; give it a minute",
        )


def it_is_killed_while_it_drains(engine: Engine) -> Iterator[Told]:
    """SIGKILL comes at the end of the grace period, whoever still streams."""
    told = engine.pod.get("terminationGracePeriodSeconds")
    grace = float(told) if isinstance(told, int | float) else DEFAULT_GRACE_S
    sleep, drain = _pre_stop_s(engine), _number(engine.flag("--shutdown-timeout"))
    if sleep + drain >= grace and (sleep or drain):
        yield (
            "fault",
            f"terminationGracePeriodSeconds {grace:.0f} is not over preStop {sleep:.0f} s + "
            "--shutdown-timeout "
            f"{drain:.0f} s: it is killed while it drains; raise it",
        )


def it_cuts_streams_when_it_ends(engine: Engine) -> Iterator[Told]:
    """vLLM ends a running stream with an error inside of a 200 at SIGTERM, unless it is given time."""
    if engine.is_worker:
        return
    if not _number(engine.flag("--shutdown-timeout")):
        yield (
            "fault",
            "no --shutdown-timeout: at SIGTERM running streams end at once, with an error inside an answer "
            "of "
            "status 200; give them the longest generation",
        )


def it_is_asked_while_it_ends(engine: Engine) -> Iterator[Told]:
    """SIGTERM is sent at the same moment as the endpoint is taken away."""
    if not engine.is_worker and not _pre_stop_s(engine):
        yield (
            "risk",
            "no preStop sleep: requests still arrive for seconds after SIGTERM, and are refused; sleep until "
            "everybody has heard, 10 to 15 s",
        )


def it_listens_to_itself(engine: Engine) -> Iterator[Told]:
    """Loopback in a pod is the pod's own."""
    if engine.flag("--host") in ("127.0.0.1", "localhost", "::1"):
        yield "fault", "--host 127.0.0.1 in a pod is reached by nobody else: use 0.0.0.0, and a NetworkPolicy"


def its_image_moves(engine: Engine) -> Iterator[Told]:
    """Two nodes may run two versions, and a roll-back rolls nothing back."""
    image = str(engine.container.get("image", ""))
    _, at_sign, digest = image.partition("@")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    if not (at_sign and digest) and tag in MOVING:
        yield (
            "fault",
            f"image {image or 'unnamed'} is another one tomorrow: replicas differ after a restart, and "
            "nothing "
            "can be rolled back; name a version or a digest",
        )


def a_secret_is_plain(engine: Engine) -> Iterator[Told]:
    """In an argument or a variable everybody who may read pods reads it."""
    if engine.flag("--api-key"):
        yield (
            "fault",
            "--api-key stands among its arguments: whoever may list pods reads it; VLLM_API_KEY from a "
            "Secret",
        )


def it_may_be_root(engine: Engine) -> Iterator[Told]:
    """What breaks out of an engine should not be root on its node."""
    for place in (engine.container.get("securityContext"), engine.pod.get("securityContext")):
        told = mapping(place)
        if told.get("privileged") is True:
            yield (
                "fault",
                "it is privileged: it owns its node and every card there; the device plugin suffices",
            )
            return
        if told.get("runAsNonRoot") is True or (told.get("runAsUser") or 0) > 0:
            return
    yield "risk", "nothing keeps it from being root: runAsNonRoot: true, and a user of its own"


def _pre_stop_s(engine: Engine) -> float:
    before = mapping(at(engine.container, "lifecycle", "preStop"))
    slept = at(before, "sleep", "seconds")
    if isinstance(slept, int | float):
        return float(slept)
    words = " ".join(str(it) for it in at(before, "exec", "command") or []).replace(";", " ").split()
    for number, word in enumerate(words[:-1]):
        if word.rpartition("/")[2] == "sleep":
            return _number(words[number + 1])
    return 0.0


def _patience_s(probe: Mapping[str, Any]) -> float:
    return _seconds(probe, "periodSeconds", 10) * _seconds(probe, "failureThreshold", 3)


def _seconds(probe: Mapping[str, Any], name: str, otherwise: float) -> float:
    told = probe.get(name)
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else otherwise


def _number(text: str | None) -> float:
    try:
        return max(0.0, float((text or "0").rstrip("s")))
    except ValueError:
        return 0.0


RULES = {
    "no-readiness": nothing_says_when_it_is_ready,
    "killed-while-loading": it_is_killed_while_it_loads,
    "short-startup": it_starts_too_slowly_for_its_probe,
    "busy-is-dead": busy_is_taken_for_dead,
    "grace-under-drain": it_is_killed_while_it_drains,
    "streams-cut": it_cuts_streams_when_it_ends,
    "asked-while-ending": it_is_asked_while_it_ends,
    "loopback": it_listens_to_itself,
    "moving-image": its_image_moves,
    "key-in-arguments": a_secret_is_plain,
    "root": it_may_be_root,
}
