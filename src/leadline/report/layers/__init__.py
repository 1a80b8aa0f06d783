"""Where the I/O goes, shown: tables of layers, what came between them, and why."""
