"""What a Kubernetes cluster is, as far as storage is concerned: a model built from its objects."""
