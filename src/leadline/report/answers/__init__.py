"""JSON answers of the verbs."""
