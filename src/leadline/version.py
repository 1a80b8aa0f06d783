"""The version of Leadline."""

__version__ = "0.2.0"
