"""The DaemonSets of the real cluster on the nodes that only our side has: the real controller makes no pods there."""

from collections.abc import Iterable, Sequence

from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.controllers.scaleup.template import runs_on
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import UnixTime
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Node, Pod, is_daemon

_DaemonSet = tuple[str, Owner | None]


class DaemonSets:
    """`pods`: one for each DaemonSet, as in `Changes`."""

    def __init__(self, pods: Sequence[Pod], kubernetes: KubernetesVersion) -> None:
        self._pods, self._kubernetes = _by_set(pods), kubernetes

    def change(self, pods: Sequence[Pod], cluster: VirtualCluster, nodes: Iterable[Node], at: UnixTime) -> bool:
        """Makes pods of new DaemonSets on these nodes, removes those of DaemonSets that are gone, and replaces those of others
        whose needs changed. Returns whether there were any."""
        before, after = self._pods, _by_set(pods)
        changed = {
            key for key in {*before, *after} if key not in before or key not in after or before[key].kind != after[key].kind
        }
        self._pods = after
        if not changed:
            return False
        for node in nodes:
            for pod in cluster.pods_on(node.name):
                if is_daemon(pod) and _set_of(pod) in changed:
                    cluster.drop(pod)
            for key in sorted(changed & after.keys(), key=str):
                if runs_on(after[key], node, self._kubernetes):
                    cluster.put_daemon(after[key], node.name, at)
        return True


def _by_set(pods: Sequence[Pod]) -> dict[_DaemonSet, Pod]:
    return {_set_of(pod): pod for pod in pods}


def _set_of(pod: Pod) -> _DaemonSet:
    return pod.key.namespace, pod.eviction_facts.owner
