"""A load through two tiers of which one gateway goes: killed, or hung."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from kilocard.load import Timeouts, replay
from kilocard.notebook.tiers import LOOK_S, MOST_WAIT_S, Tiers
from kilocard.record import Run, Status
from kilocard.workload import Workload


@dataclass(frozen=True, slots=True)
class Gone:
    """A load through two tiers, of which one gateway went; times are seconds on the run's clock."""

    run: Run
    gateway: int
    at_s: float
    in_flight: int
    """What it had at its engines a moment before."""
    known_s: float
    """When HAProxy held it down."""
    patience_s: float
    """How long a client waits for a gateway that says nothing; one that is killed closes its connections."""

    @property
    def through_it(self) -> DataFrame:
        """Requests that went through the gateway that went."""
        return self.run.requests[self.run.requests["gateway"] == str(self.gateway)]

    @property
    def through_others(self) -> DataFrame:
        """All other requests."""
        return self.run.requests[self.run.requests["gateway"] != str(self.gateway)]

    @property
    def failed(self) -> DataFrame:
        """Requests that did not end well."""
        return self.run.requests[self.run.requests["status"] != Status.OK]

    @property
    def sent_before(self) -> DataFrame:
        """Of the failed, those that were under way when it went."""
        return self.failed[self.failed["sent_s"] < self.at_s]

    @property
    def sent_after(self) -> DataFrame:
        """Of the failed, those that were sent when it had gone."""
        return self.failed[self.failed["sent_s"] >= self.at_s]

    @property
    def ends_s(self) -> NDArray[np.float64]:
        """When each request was over for its client: at its last token, or when it was given up."""
        table = self.run.requests
        heard_s = table["last_token_s"].fillna(table["sent_s"]).to_numpy(float)
        given_up_s = heard_s + self.patience_s if self.patience_s else np.maximum(heard_s, self.at_s)
        ends_s: NDArray[np.float64] = np.where(table["status"] == Status.OK, heard_s, given_up_s)
        return ends_s

    @property
    def is_honest(self) -> bool:
        """Whether each answer that counts as one is whole, and each other one says why it is none."""
        ok = self.run.ok
        whole = (ok["output_tokens"] == ok["max_tokens"]).all() and (ok["chunks"] > 0).all()
        return bool(whole and self.failed["error"].notna().all())


def lose_a_gateway(
    tiers: Tiers,
    model: str,
    load: Workload,
    after_s: float,
    by: signal.Signals = signal.SIGKILL,
    *,
    gateway: int = 0,
    patience_s: float = 2.0,
) -> Gone:
    """Play a load through both tiers, and kill one gateway so many seconds after its first request; SIGSTOP
    hangs it instead, until the load has ended. `patience_s` is how long the client bears silence."""
    told: dict[str, float] = {}
    hangs = by is signal.SIGSTOP

    def lose() -> None:
        _await_busy(tiers, gateway)
        time.sleep(after_s)
        told["in flight"] = _await_busy(tiers, gateway)
        tiers.signal(gateway, by)
        told["at"] = time.time()
        others = ["UP"] * len(tiers.gateways)
        others[gateway] = "DOWN"
        told["known"] = tiers.await_states(*others)

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        run = replay(tiers.url, model, workloads=load, timeouts=Timeouts(idle_s=patience_s))
    finally:
        losing.join()
        if hangs:
            tiers.signal(gateway, signal.SIGCONT)
            tiers.await_states(*["UP"] * len(tiers.gateways))
    began_s = float(run.stamp.client["began_s"])
    return Gone(
        tiers.by_gateway(run, gone=gateway),
        gateway,
        told["at"] - began_s,
        int(told["in flight"]),
        told["known"] - began_s,
        patience_s if hangs else 0.0,
    )


def _await_busy(tiers: Tiers, gateway: int) -> int:
    """Until a gateway has something in flight: how much."""
    until = time.monotonic() + MOST_WAIT_S
    while (held := tiers.in_flight(gateway)) == 0 and time.monotonic() < until:
        time.sleep(LOOK_S)
    return held
