"""What each setting of a run buys, and what it costs."""
