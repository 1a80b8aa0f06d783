"""Where I/O goes: one file per kind, each with its safety rules."""
