"""What an engine says of itself over time: running, waiting, and the KV cache in use."""

from __future__ import annotations

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.record import Run


def engine_load_figure(run: Run, *, title: str, cap: int | None = None) -> None:
    """Running and waiting requests above, KV in use below, from the run's samples."""
    samples = run.samples.sort_values("t_s")
    t = samples["t_s"].to_numpy(float)
    running, waiting = samples["running"].to_numpy(float), samples["waiting"].to_numpy(float)
    kv = 100 * samples["kv_used_ratio"].to_numpy(float)
    with style.look():
        figure, (upper, lower) = plt.subplots(
            2, 1, figsize=(6.4, 3.6), sharex=True, gridspec_kw={"height_ratios": (2, 1)}
        )
        upper.fill_between(t, 0, running, step="post", color=style.DECODE, label="running", linewidth=0)
        upper.fill_between(
            t, running, running + waiting, step="post", color=style.WAITING, label="waiting", linewidth=0
        )
        if cap is not None:
            upper.axhline(cap, color=style.INK, linewidth=1)
            upper.annotate(f"max_num_seqs = {cap}", (t[-1], cap), xytext=(0, 3), ha="right",
                           textcoords="offset points", fontsize=9.5)  # fmt: skip
        upper.set_ylabel("Requests")
        figure.legend(loc="outside upper right", ncols=2)
        lower.step(t, kv, where="post", color=style.KV)
        lower.set_ylabel("KV in use, %")
        lower.set_ylim(bottom=0)
        lower.set_xlabel("Seconds since the run began")
        alt = (
            f"The engine over {t[-1] - t[0]:.0f} seconds: at most {running.max():.0f} requests running, "
            f"{waiting.max():.0f} waiting, {kv.max():.1f} % of the KV cache in use."
        )
        style.show(figure, title=title, alt=alt, stamp=run.stamp)
