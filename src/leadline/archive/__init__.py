"""The run record: the only truth, from which everything else is derived."""
