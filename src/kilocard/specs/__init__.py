"""What a user writes down: checked when read, with errors that name the way out."""

from kilocard.specs.engine import EngineSpec
from kilocard.specs.slo import SLO

__all__ = ["SLO", "EngineSpec"]
