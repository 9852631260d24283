"""What a change of DaemonSets does on nodes that only our side has."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import Raw, structs

from slackwater.app.counterfactual.daemon_sets import DaemonSets
from slackwater.app.offline.cluster import read_cluster
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Pod
from tests.support.builders import a_node, a_pod

NOW = UnixTime(1_800_000_000.0)
OURS, ALSO = a_node("ours"), a_node("also")


def daemon(name: str, cpu: str = "100m") -> Pod:
    facts = EvictionFacts(owner=Owner("apps", "DaemonSet", name))
    return structs.replace(a_pod(name, cpu=cpu, uid=name), eviction_facts=facts)


class Side:
    """Two nodes that only our side has, with a pod of DaemonSet `log` each."""

    def __init__(self) -> None:
        empty = read_cluster(Raw(b'{"apiVersion": "v1", "kind": "List", "items": []}'))
        self.cluster = VirtualCluster(replace(empty, nodes=(OURS, ALSO)))
        self.sets = DaemonSets([], empty.kubernetes.version)
        self.set(daemon("log"))

    def set(self, *pods: Pod) -> bool:
        return self.sets.change(pods, self.cluster, [OURS, ALSO], NOW)

    @property
    def pods(self) -> Sequence[tuple[str, int]]:
        """Name and CPU of the pods on a node; both nodes have the same."""
        ours, also = (
            sorted(
                (pod.key.name.removesuffix(f"-{name}"), pod.kind.requests.cpu) for pod in self.cluster.pods_on(NodeName(name))
            )
            for name in ("ours", "also")
        )
        assert ours == also
        return ours


def test_a_new_one_comes_and_one_that_is_gone_goes() -> None:
    side = Side()
    assert side.set(daemon("log"), daemon("proxy"))
    assert side.pods == [("log", 100), ("proxy", 100)]
    assert side.set(daemon("proxy"))
    assert side.pods == [("proxy", 100)]


def test_other_needs_replace_the_pods_and_no_change_is_none() -> None:
    side = Side()
    assert not side.set(daemon("log"))
    assert side.set(daemon("log", cpu="1"))
    assert side.pods == [("log", 1000)]


def test_none_comes_to_a_node_that_it_does_not_select() -> None:
    side = Side()
    elsewhere = daemon("proxy")
    kind = replace(elsewhere.kind, node_selector=(("disk", "ssd"),))
    side.set(daemon("log"), structs.replace(elsewhere, kind=kind))
    assert side.pods == [("log", 100)]
