"""A plan's files: the report, its numbers, the cluster file, the table of places."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.planning.candidate import gateways_for
from kilocard.planning.page import as_html, as_markdown
from kilocard.planning.placement import Placement
from kilocard.planning.plan import Plan
from kilocard.planning.report import sections_of, title_of
from kilocard.planning.search import wanted_per_s
from kilocard.record.plain import to_json
from kilocard.specs.cluster import cluster_from
from kilocard.specs.target import QUANTIZATION


def write_plan(plan: Plan, folder: Path) -> list[Path]:
    """All files into a folder; returns where they are."""
    title, sections = title_of(plan), sections_of(plan)
    texts = {
        "report.md": as_markdown(title, sections),
        "report.html": as_html(title, sections),
        "plan.json": to_json(numbers_of(plan), indent=2) + "\n",
        "cluster.yaml": cluster_text(plan),
    }
    if isinstance(plan.placement, Placement):
        texts["placement.csv"] = placement_table(plan.placement)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise KilocardError(f"cannot write {folder}: {error.strerror}; name another --out") from error
    return [folder / name for name in texts]


def cluster_of(plan: Plan) -> dict[str, Any]:
    """The cluster file's content."""
    candidate, target = plan.option.candidate, plan.target
    engine = {
        "tensor_parallel_size": candidate.tensor_parallel,
        "max_num_seqs": candidate.max_num_seqs,
        "max_num_batched_tokens": candidate.max_num_batched_tokens,
        "quantization": QUANTIZATION[candidate.weights],
        "max_model_len": target.max_model_len,
    }
    per_node = target.site.cards_per_node if target.site else 8
    return {
        "name": "plan",
        "model": target.model,
        "version": "v1",
        "slo": target.slo.model_dump(exclude_none=True),
        "pools": [
            {
                "name": "chat",
                "card": candidate.card,
                "replicas": plan.replicas,
                "cap": candidate.max_num_seqs,
                "nodes": -(-plan.cards // per_node),
                "cards_per_node": per_node,
                "engine": {name: value for name, value in engine.items() if value is not None},
            }
        ],
        "gateway": {
            "gateways": gateways_for(wanted_per_s(target), plan.replicas),
            "policy": candidate.policy,
        },
    }


def cluster_text(plan: Plan) -> str:
    """As YAML that `kilocard lint` takes."""
    content = cluster_of(plan)
    cluster_from(content, "the plan's cluster file")
    about = f"# {title_of(plan)}, as planned: simulated, not measured. See report.md.\n"
    return about + yaml.safe_dump(content, sort_keys=False)


def placement_table(placed: Placement) -> str:
    """One row a replica."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("pool", "replica", "nodes", "rack", "switch", "power_domain"))
    for it in placed.placed:
        rows.writerow((it.pool, it.replica, " ".join(map(str, it.nodes)), it.rack, it.switch, it.power))
    return text.getvalue()


def numbers_of(plan: Plan) -> dict[str, Any]:
    """For other programs."""
    learnt = plan.from_baseline
    return {
        "model": plan.target.model,
        "target_output_tokens_per_s": plan.target.output_tokens_per_s,
        "candidate": asdict(plan.option.candidate),
        "replicas": plan.replicas,
        "spares": plan.spares,
        "cards": plan.cards,
        "kind": "simulated",
        "seen": asdict(plan.seen),
        "waterfall": [asdict(fall) for fall in plan.falls],
        "stages": [asdict(stage) for stage in plan.stages],
        "cost": asdict(plan.cost),
        "search": {
            name: getattr(plan.search, name) for name in ("considered", "ruled_out", "lost", "simulations")
        },
        "options": [
            {"candidate": asdict(it.candidate), "cards": it.cards, "price_per_hour": it.price_per_hour}
            for it in plan.search.options
        ],
        "baseline": None
        if learnt is None
        else {
            "source": learnt.baseline.source,
            "kind": learnt.baseline.kind.value,
            "level": asdict(learnt.level),
            "ideal": asdict(learnt.ideal),
            "discounted": [asdict(size) for size in learnt.discounted],
            "fit_errors": list(learnt.fit_errors),
        },
        "placement": _where(plan),
        "calibration": plan.calibration,
        "expected_error": plan.expected_error,
    }


def _where(plan: Plan) -> Any:
    if plan.placement is None:
        return None
    if isinstance(plan.placement, Placement):
        return {kind: plan.placement.worst(kind) for kind in ("node", "rack", "switch", "power")}
    return {"rule": plan.placement.rule, "changes": list(plan.placement.changes)}
