"""Runners that are KubeVirt virtual machines, and a shell in their guests by the serial console."""
