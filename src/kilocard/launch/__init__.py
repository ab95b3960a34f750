"""Real engines: launched, shared, watched, and gone without a trace."""

from kilocard.launch.engine import Engine, stop_all
from kilocard.launch.failure import EngineError
from kilocard.launch.metrics import EngineMetrics, read_metrics, sample
from kilocard.launch.model_files import embedded_model
from kilocard.launch.process import default_spec, launch, start
from kilocard.launch.replicas import launch_replicas, start_replicas

__all__ = [
    "Engine",
    "EngineError",
    "EngineMetrics",
    "default_spec",
    "embedded_model",
    "launch",
    "launch_replicas",
    "read_metrics",
    "sample",
    "start",
    "start_replicas",
    "stop_all",
]
