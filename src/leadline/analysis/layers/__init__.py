"""What each layer below a target did during a trial, and what changed between two layers."""
