"""What fewer bits do to a model's answers: rounded weights, judged by text, by task and by each other."""

from kilocard.quality.judge import BASELINE, Quality, judge
from kilocard.quality.orders import ORDERS
from kilocard.quality.scheme import SCHEMES, Scheme

__all__ = ["BASELINE", "ORDERS", "SCHEMES", "Quality", "Scheme", "judge"]
