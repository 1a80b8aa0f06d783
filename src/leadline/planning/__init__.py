"""Write a plan from a surveyed Kubernetes cluster: classes, volume sizes, estimated cost."""
