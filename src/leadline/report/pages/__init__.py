"""Pages: one module or package per kind of page."""
