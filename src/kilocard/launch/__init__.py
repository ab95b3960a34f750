"""Real engines: launched, shared, watched, and gone without a trace."""

from kilocard.launch.engine import Engine
from kilocard.launch.failure import EngineError
from kilocard.launch.metrics import EngineMetrics, read_metrics, sample
from kilocard.launch.model_files import embedded_model
from kilocard.launch.process import default_spec, launch, start

__all__ = [
    "Engine",
    "EngineError",
    "EngineMetrics",
    "default_spec",
    "embedded_model",
    "launch",
    "read_metrics",
    "sample",
    "start",
]
