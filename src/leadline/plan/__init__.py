"""What to measure: targets x workloads x load levels x repeats."""
