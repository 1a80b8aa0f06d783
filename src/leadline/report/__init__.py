"""What is said of a run: a document without markup, and its renderings."""
