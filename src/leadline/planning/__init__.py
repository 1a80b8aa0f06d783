"""Writes a plan from what a Kubernetes cluster is: which StorageClasses can be measured, with
volumes of which size, how long that takes. Pure; what was seen comes from `kubernetes.survey`."""
