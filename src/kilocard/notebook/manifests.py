"""Manifests as a chapter shows them: ours explained, others' linted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from kilocard.deploy.lint import Finding, lint_objects
from kilocard.deploy.lint.manifests import Object, at

SOURCES = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen3-8b-dp, labels: {app: qwen3-8b}}
spec:
  replicas: 8
  template:
    metadata: {labels: {app: qwen3-8b}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:latest
        command: [python, -m, vllm.entrypoints.openai.api_server]
        args: [--model=/data/models/Qwen3-8B, --served-model-name=qwen3-8b, --tensor-parallel-size=1,
               --max-num-seqs=32, --max-model-len=8192, --gpu-memory-utilization=0.9, --port=8000]
        env: [{name: CUDA_VISIBLE_DEVICES, value: "0,1,2,3,4,5,6,7"}]
        resources: {limits: {nvidia.com/gpu: 8}}
        volumeMounts: [{name: model-storage, mountPath: /data/models}]
      volumes: [{name: model-storage, hostPath: {path: /mnt/models}}]
---
apiVersion: v1
kind: Service
metadata: {name: qwen3-8b-service}
spec: {type: ClusterIP, selector: {app: qwen3-8b}, ports: [{port: 8000, targetPort: 8000}]}
"""
"""The fields and values of a source's manifest, in a layout of ours."""


def lint_sources() -> list[Finding]:
    """What is wrong with it, faults first."""
    found = lint_objects([Object(it, "source", 1) for it in yaml.safe_load_all(SOURCES)])
    return sorted(found, key=lambda it: (it.weight != "fault", it.rule))


def objects(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every object of rendered files."""
    return [it for name, text in files.items() if name.endswith(".yaml") for it in yaml.safe_load_all(text)]


def of_kind(files: Mapping[str, str], kind: str) -> list[dict[str, Any]]:
    """In the order of the files."""
    return [it for it in objects(files) if it["kind"] == kind]


def deployment(files: Mapping[str, str], name: str) -> dict[str, Any]:
    """By its name."""
    return next(it for it in of_kind(files, "Deployment") if it["metadata"]["name"] == name)


def lint_files(files: Mapping[str, str]) -> list[Finding]:
    """What our own linter minds in rendered files."""
    return lint_objects([Object(it, "rendered", 1) for it in objects(files)])


def explained(content: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Field, value, and what happens where it is missing, in the order in which a pod lives."""
    spec = content["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    limits, probe = container["resources"]["limits"], container["startupProbe"]
    patience_s = probe["periodSeconds"] * probe["failureThreshold"]
    cards = limits["nvidia.com/gpu"]
    return [
        ("nodeSelector", _shown(pod["nodeSelector"]), "it may land on a card with half the memory"),
        ("limits: nvidia.com/gpu", str(cards), "cards that are reserved and idle, or ranks without one"),
        (
            "initContainers",
            pod["initContainers"][0]["name"],
            "half a file of weights, found at the first answer",
        ),
        ("image", container["image"], "two versions after the next restart, and nothing to roll back to"),
        ("/dev/shm: emptyDir, Memory", f"{_shm(pod)}", f"{cards} ranks share 64 MiB and crawl, or die"),
        ("startupProbe", f"{patience_s} s", "killed while it loads, again and again"),
        ("readinessProbe", container["readinessProbe"]["httpGet"]["path"], "requests before the weights"),
        ("livenessProbe", "a minute of silence", "a hung engine stays; shorter, and a busy one is killed"),
        (
            "preStop: sleep",
            f"{container['lifecycle']['preStop']['exec']['command'][1]} s",
            "requests after SIGTERM",
        ),
        (
            "--shutdown-timeout",
            f"{_flag(container, '--shutdown-timeout')} s",
            "streams end with an error in a 200",
        ),
        (
            "terminationGracePeriodSeconds",
            str(pod["terminationGracePeriodSeconds"]),
            "SIGKILL while it drains",
        ),
        ("maxSurge, maxUnavailable", _rolls(spec), "a roll-out that waits for cards which are not there"),
        ("topologySpreadConstraints", ", ".join(_spread(pod)), "one rack's end is the pool's"),
        ("priorityClassName", pod["priorityClassName"], "a batch holds the card that a person waits for"),
        ("runAsNonRoot", str(pod["securityContext"]["runAsNonRoot"]), "what breaks out is root on the node"),
    ]


def _shown(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in labels.items())


def _shm(pod: Mapping[str, Any]) -> str:
    volume = next(it for it in pod["volumes"] if it["name"] == "shm")
    return str(at(volume, "emptyDir", "sizeLimit"))


def _flag(container: Mapping[str, Any], name: str) -> str:
    args: list[str] = container["args"]
    return args[args.index(name) + 1]


def _rolls(spec: Mapping[str, Any]) -> str:
    update = spec["strategy"]["rollingUpdate"]
    return f"{update['maxSurge']}, {update['maxUnavailable']}"


def _spread(pod: Mapping[str, Any]) -> list[str]:
    return [str(it["topologyKey"]).rpartition("/")[2] for it in pod["topologySpreadConstraints"]]
