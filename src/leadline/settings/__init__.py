"""Settings of systems under test: read, applied, read back, and restored."""
