"""Kilocard: from one card to a thousand, launched, measured, drawn and predicted by the same code."""

__version__ = "0.1.0"
