"""What a run's stamp says: who answered, on which box, and how the client was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kilocard import __version__
from kilocard.errors import KilocardError
from kilocard.load.identity import Identity, is_local
from kilocard.load.recorder import Recording
from kilocard.load.target import Target
from kilocard.record import Stamp


@dataclass(frozen=True, slots=True)
class Scene:
    """What the stamp says of a run before there is one."""

    target: Target
    identity: Identity
    here: dict[str, Any]
    started_at: str
    seed: int

    def stamp(
        self, recording: Recording, workload: dict[str, Any], overrides: Mapping[str, Any] | None
    ) -> Stamp:
        """The stamp of what came of it; `overrides` are fields by name."""
        unknown = set(overrides or {}) - {item.name for item in fields(Stamp)}
        if unknown:
            raise KilocardError(
                f"a stamp has no field {', '.join(sorted(unknown))}: see kilocard.record.Stamp"
            )
        local, identity = is_local(self.target), self.identity
        client = _client_health(recording)
        return Stamp(
            **{
                "kind": identity.kind,
                "model": self.target.model,
                "engine": identity.engine,
                "engine_version": identity.version,
                "card": identity.card or (_card(self.here) if local else "unknown"),
                "box": self.here if local else {"name": "remote"},
                "started_at": self.started_at,
                "settings": {"max_model_len": identity.max_model_len},
                "workload": {**workload, "stages": recording.stages},
                "seed": self.seed,
                "kilocard_version": __version__,
                "client": client if local else {**client, "box": self.here},
                "valid": not recording.invalid_reason,
                "invalid_reason": recording.invalid_reason,
                **(overrides or {}),
            }
        )


def _client_health(recording: Recording) -> dict[str, Any]:
    stages = recording.stages.values()
    return {
        "began_s": recording.began_s,
        "loop_lag_p99_s": max((stage["loop_lag_p99_s"] for stage in stages), default=0.0),
        "cpu_cores": max((stage["cpu_cores"] for stage in stages), default=0.0),
        "late_sends": recording.late_sends,
        "retries": recording.retries,
        "interrupted": recording.interrupted,
        "stopped": recording.stopped,
    }


def _card(box: dict[str, Any]) -> str:
    return str(box["gpus"][0]["name"]) if box["gpus"] else "cpu"
