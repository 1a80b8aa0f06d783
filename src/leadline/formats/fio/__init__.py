"""Parsers of what fio prints and logs: JSON, terse, text, logs, job files."""
