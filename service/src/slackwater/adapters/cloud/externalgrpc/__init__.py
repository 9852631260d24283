"""Client of Cluster Autoscaler's external gRPC provider protocol. Needs the extra `slackwater[externalgrpc]`."""
