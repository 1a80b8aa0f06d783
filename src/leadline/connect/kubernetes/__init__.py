"""Connections to a Kubernetes cluster: API client, runner pods and VMs, cleanup."""
