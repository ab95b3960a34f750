"""`kilocard lint` of a cluster file: faults end with 1, remarks do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kilocard import cli

POOL = {"name": "chat", "card": "h100-sxm", "replicas": 2}


def linted(
    capsys: pytest.CaptureFixture[str], path: Path, *options: str, **cluster: object
) -> tuple[int | str | None, str]:
    path.write_text(yaml.safe_dump({"name": "t", "model": "qwen3-8b", "pools": [POOL], **cluster}))
    with pytest.raises(SystemExit) as ended:
        cli.main(["lint", str(path), *options])
    return ended.value.code, capsys.readouterr().out


def test_one_gateway_is_a_remark_and_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = linted(capsys, tmp_path / "t.yaml")
    assert code == 0 and "nothing is wrong" in told
    assert "remark: gateway.gateways: there is one" in told
    code, told = linted(capsys, tmp_path / "t.yaml", "--json")
    assert code == 0 and [it["key"] for it in json.loads(told)["remarks"]] == ["gateway.gateways"]


def test_two_gateways_or_engines_of_others_are_no_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for cluster in (
        {"gateway": {"gateways": 2}},
        {"pools": [{"name": "chat", "replicas": ["http://127.0.0.1:8001"]}]},
    ):
        code, told = linted(capsys, tmp_path / "t.yaml", "--json", **cluster)
        assert code == 0 and json.loads(told)["remarks"] == []


def test_faults_come_without_remarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = linted(capsys, tmp_path / "t.yaml", "--json", version=1)
    assert code == 1 and json.loads(told)["faults"] and not json.loads(told)["remarks"]


def test_a_pool_that_is_called_as_the_gateways_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = linted(capsys, tmp_path / "t.yaml", pools=[{**POOL, "name": "gateway"}])
    assert code == 1 and "pools.0.name: engines of a pool gateway would be called" in told
