"""The cluster file's JSON Schema, for editors that help while one writes."""

from __future__ import annotations

from typing import Any

from kilocard.specs.cluster.spec import ClusterSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def cluster_schema() -> dict[str, Any]:
    """What a file may say, with every short form that is taken; what its parts must agree on is not in it."""
    schema = ClusterSpec.model_json_schema(by_alias=True, mode="validation")
    known = schema["$defs"]
    pool = known["Pool"]["properties"]
    pool["replicas"] = {
        "description": "A number of engines to start, their URLs, or the name behind which they are found.",
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "array", "minItems": 1, "items": _or_text("Replica")},
            {"$ref": "#/$defs/Discovery"},
        ],
    }
    for internal in ("count", "discovery"):
        del pool[internal]
    known["Pool"]["required"] = ["name", "replicas"]
    known["GatewaySpec"]["properties"]["places"]["items"] = _or_text("GatewayPlace")
    return {"$schema": DIALECT, **schema, "title": "Kilocard's cluster file"}


def _or_text(name: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, {"$ref": f"#/$defs/{name}"}]}
