"""The way to a Kubernetes cluster: its API, shells in its pods and guests, what is made there."""
