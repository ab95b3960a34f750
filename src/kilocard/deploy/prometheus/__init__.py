"""Prometheus's configuration, rules and their tests, from a cluster file."""

from kilocard.deploy.prometheus.files import operator_files, render

__all__ = ["operator_files", "render"]
