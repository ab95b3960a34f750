"""When somebody is told: thresholds of the alert rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kilocard.specs.cluster.parts import Share, SomeShare
from kilocard.specs.numbers import Seconds, WithinADay
from kilocard.specs.written import Written


class Alerts(Written):
    """Each holds for `for_s` before somebody is told.

    `ttft_p95_s` and `tpot_p95_s` left out are the SLO's; `imbalance` is how far the busiest replica of a pool
    is over its mean, as a share of the mean; `waiting` is of the line's limit; `errors` of all requests;
    `kv_used` of the blocks; `stale_s` is how old what is scraped may be.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {"slo": "it stands at the top: slo: {ttft_p99_s: 2}"}

    for_s: Seconds = 300.0
    ttft_p95_s: WithinADay | None = None
    tpot_p95_s: WithinADay | None = None
    imbalance: Share = 0.3
    waiting: SomeShare = 0.5
    errors: SomeShare = 0.01
    kv_used: SomeShare = 0.9
    stale_s: Seconds = 60.0
