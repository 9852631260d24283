"""The judge of the tests of removals: it sees what may not be, at the one moment at which it was."""

from typing import Any

from tests.cluster.support.judgement import Judgement, judged
from tests.cluster.support.removals import TAINT, History

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class StatusSources:
    """A history, told by changes."""

    def __init__(self) -> None:
        self.history = History()
        self.version = 0

    def hear(self, kind: str, name: str, *, gone: bool = False, **parts: Any) -> int:
        self.version += 1
        meta = {"name": name, "namespace": "ns", "resourceVersion": str(self.version), **parts.pop("meta", {})}
        item = {"metadata": meta, "spec": {}, "status": {}, **parts}
        self.history.hear(kind, item, gone=gone)
        return self.version

    def node(self, name: str, *, tainted: bool = False) -> int:
        return self.hear("node", name, spec={"taints": [{"key": TAINT}] if tainted else []})

    def pod(self, name: str, node: str | None = None, *, deleting: bool = False, refused: bool = False) -> int:
        conditions = [{"type": "Ready", "status": "True"}]
        conditions += [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if refused else []
        spec = {"nodeName": node} if node else {}
        return self.hear(
            "pod",
            name,
            spec=spec,
            status={"conditions": conditions},
            meta={"labels": {"app": "web"}, **(LEAVING if deleting else {})},
        )

    def budget(self, least: int) -> int:
        return self.hear("budget", "web", spec={"selector": {"matchLabels": {"app": "web"}}}, status={"desiredHealthy": least})

    def judged(self, since: int = 0) -> Judgement:
        return judged(self.history, since=since)


def test_a_budget_that_was_below_its_minimum_for_one_change_is_reported() -> None:
    reported = StatusSources()
    reported.node("n1")
    for name in ("a", "b"):
        reported.pod(name, "n1")
    reported.budget(1)
    reported.pod("a", "n1", deleting=True)
    assert reported.judged().below == []
    reported.pod("b", "n1", deleting=True)
    reported.pod("c", "n1")
    assert reported.judged().below == ["ns/web: 0 healthy, at least 1: ns/b"]
    assert reported.judged(since=reported.version + 1).below == []


def test_changes_count_in_the_order_of_their_versions_whichever_arrived_first() -> None:
    reported = StatusSources()
    reported.budget(1)
    reported.pod("a", "n1")
    reported.pod("b", "n1")
    reported.pod("a", "n1", deleting=True)
    reported.history.changes.reverse()
    assert reported.judged().below == []


def test_drains_are_tainted_nodes_with_pods_and_removals_all_of_them() -> None:
    reported = StatusSources()
    reported.pod("a", "n1")
    for name in ("n1", "n2", "n3"):
        reported.node(name)
    for name in ("n1", "n2"):
        reported.node(name, tainted=True)
    found = reported.judged()
    assert (found.most_drains, found.most_removals, found.given_up) == (1, 2, [])
    reported.node("n2")
    assert reported.judged().given_up == ["n2"]


def test_a_pod_without_room_and_a_node_that_was_added_are_reported() -> None:
    reported = StatusSources()
    reported.node("n1")
    since = reported.version + 1
    reported.pod("a", refused=True)
    reported.pod("a", "n2", refused=True)
    reported.node("n2")
    reported.hear("node", "n1", gone=True)
    found = reported.judged(since)
    assert (list(found.refused), found.added, found.given_up) == (["ns/a"], ["n2"], [])
