"""The canary: what a version of Kubernetes does otherwise than the newest one that was recorded here."""
