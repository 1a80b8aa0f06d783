"""Reports: documents without markup, and their renderers."""
