"""Cards, models and links: every number with its source, date and kind."""

from kilocard.facts.card import Card
from kilocard.facts.dtypes import KvDtype, WeightDtype
from kilocard.facts.hf_config import model_from_config
from kilocard.facts.link import Link
from kilocard.facts.model import LinearAttention, Mla, Model, Moe
from kilocard.facts.registry import card, cards, link, links, model, models
from kilocard.facts.source import FactKind, Source

__all__ = [
    "Card", "FactKind", "KvDtype", "LinearAttention", "Link", "Mla", "Model", "Moe", "Source", "WeightDtype",
    "card", "cards", "link", "links", "model", "model_from_config", "models",
]  # fmt: skip
