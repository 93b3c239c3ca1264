"""Tacit lets several parties learn one model without telling each other what they know."""

__version__ = "0.1.0"
