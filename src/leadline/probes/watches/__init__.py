"""Probes that sample a system during a trial."""
