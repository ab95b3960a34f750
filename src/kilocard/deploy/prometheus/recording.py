"""Recording rules: what alerts, dashboards and the runbook ask for, summed over the gateways once."""

from __future__ import annotations

WINDOW = "5m"
GATEWAY = "kilocard_gateway_"
POOL, REPLICA = "model, pool", "model, pool, replica"
FAILED = "error|timeout"


def recording_rules() -> dict[str, str]:
    """Name → expression. Every gateway counts its own part, so all are sums over gateways, but for what each
    sees of a replica by itself."""
    requests = f"rate({GATEWAY}requests_total[{WINDOW}])"
    failed = f'rate({GATEWAY}requests_total{{status=~"{FAILED}"}}[{WINDOW}])'
    return {
        "kilocard:in_flight": f"sum by ({REPLICA}) ({GATEWAY}replica_in_flight)",
        "kilocard:cap": f"sum by ({REPLICA}) ({GATEWAY}replica_cap)",
        "kilocard:waiting": f"sum by ({POOL}) ({GATEWAY}waiting)",
        "kilocard:utilization": (
            f"sum by ({POOL}) ({GATEWAY}replica_in_flight) / (sum by ({POOL}) ({GATEWAY}replica_cap) > 0)"
        ),
        "kilocard:requests_per_s": f"sum by ({POOL}, priority) ({requests})",
        "kilocard:tokens_per_s": f"sum by ({POOL}) (rate({GATEWAY}output_tokens_total[{WINDOW}]))",
        "kilocard:errors": f"(sum by ({POOL}) ({failed}) or 0 * sum by ({POOL}) ({requests})) "
        f"/ (sum by ({POOL}) ({requests}) > 0)",
        "kilocard:ttft_seconds:p95": _quantile(0.95, "time_to_first_token_seconds", f"{POOL}, priority"),
        "kilocard:ttft_seconds:p50": _quantile(0.50, "time_to_first_token_seconds", f"{POOL}, priority"),
        "kilocard:generation_seconds:p95": _quantile(0.95, "request_seconds", f"{POOL}, priority"),
        "kilocard:tpot_seconds:p95": _quantile(0.95, "time_per_output_token_seconds", POOL),
        "kilocard:replica_tpot_seconds": f"max by ({REPLICA}) ({GATEWAY}replica_tpot_seconds > 0)",
        "kilocard:replica_slow": f'max by ({REPLICA}) ({GATEWAY}replica_state{{state="slow"}})',
        "kilocard:imbalance": (
            f"max by ({POOL}) (avg_over_time(kilocard:in_flight[{WINDOW}])) "
            f"/ (avg by ({POOL}) (avg_over_time(kilocard:in_flight[{WINDOW}])) >= 1) - 1"
        ),
        "kilocard:kv_used": f"1 - min by ({REPLICA}) ({GATEWAY}replica_kv_free_ratio)",
        "kilocard:serving": (
            f'count by ({POOL}) (max by ({REPLICA}) ({GATEWAY}replica_state{{state=~"up|slow|recovering"}}))'
        ),
    }


def _quantile(quantile: float, histogram: str, by: str) -> str:
    return f"histogram_quantile({quantile}, sum by ({by}, le) (rate({GATEWAY}{histogram}_bucket[{WINDOW}])))"
