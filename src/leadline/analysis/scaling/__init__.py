"""What a run's load levels say together: curves, peak, knee, limits, density, fairness."""
