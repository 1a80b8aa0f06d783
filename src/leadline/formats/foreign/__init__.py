"""Parsers of results of other benchmark tools."""
