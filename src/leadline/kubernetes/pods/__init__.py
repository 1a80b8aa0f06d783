"""Runners that are pods: what is made, when it runs, why it does not, and a shell in it."""
