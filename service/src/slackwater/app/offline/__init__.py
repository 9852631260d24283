"""What would happen, told from a file: clusters as kubectl writes them, judged without any control plane."""

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scoring import score_lines

__all__ = ["Cluster", "ClusterError", "placement_lines", "read_cluster", "score_lines"]
