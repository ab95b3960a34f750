"""Kubernetes' manifests, from a cluster file."""

from kilocard.deploy.kubernetes.render import render

__all__ = ["render"]
