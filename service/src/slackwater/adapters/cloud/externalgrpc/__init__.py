"""A node provider over Cluster Autoscaler's external gRPC protocol. Needs the extra `slackwater[externalgrpc]`."""
