"""The fio engine: local, remote and as a fleet of clients."""
