"""Bottlenecks: which resource limited a load level, by its evidence."""
