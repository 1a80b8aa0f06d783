"""Pools and StorageClasses as Rook's resources: set up as the study has them, and undone."""
