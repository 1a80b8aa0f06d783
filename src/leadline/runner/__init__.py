"""The trial life cycle: order, bounds, interruption, resuming."""
