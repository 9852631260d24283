"""What-if on a file: reads a cluster as kubectl writes it and answers questions about it without a control plane."""

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines

__all__ = ["Cluster", "ClusterError", "placement_lines", "read_cluster"]
