"""What a snapshot answers after a trial, and how it numbers kinds."""

import pytest
from msgspec import structs

from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, Row
from slackwater.model.pod_constraints import InlineDisk, Kind, PodConstraints
from slackwater.model.reasons import Reason
from slackwater.model.storage import CsiNode, Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.builders import a_node, a_pod, amounts


def a_store(limit: int) -> Storage:
    return Storage(csi_nodes={"n0": CsiNode(name="n0", drivers=(("csi", limit),))})


@pytest.mark.parametrize("asked_inside", [True, False], ids=["asked within the trial", "not asked"])
def test_storage_that_was_tried_leaves_no_verdict_behind(asked_inside: bool) -> None:
    snapshot = ClusterSnapshot.build([structs.replace(a_node("n0"), scalars=(("pods", 9),))], storage=a_store(1))
    disk = InlineDisk(plugin="kubernetes.io/cinder", driver="csi", handle="1")
    kind = snapshot.kind_id(
        Kind(namespace="default", requests=amounts("1"), pod_constraints=PodConstraints(inline_disks=(disk,)))
    )
    assert feasible(snapshot, kind).codes.tolist() == [Reason.OK]
    with snapshot.fork():
        snapshot.put_storage(a_store(0))
        if asked_inside:
            assert feasible(snapshot, kind).codes.tolist() == [Reason.VOLUME_LIMIT]
    assert feasible(snapshot, kind).codes.tolist() == [Reason.OK]


def test_kinds_are_numbered_by_their_first_pods() -> None:
    pods = [a_pod(f"p{n}", cpu=f"{n + 1}") for n in range(50)]
    pods[7] = structs.replace(pods[7], kind=pods[3].kind)
    snapshot = ClusterSnapshot.build([], pods)
    want = [n - (n > 7) for n in range(50)]
    want[7] = 3
    assert snapshot.number(pods).tolist() == want


def test_a_row_that_is_given_away_in_a_trial_is_its_own_again() -> None:
    snapshot = ClusterSnapshot.build([a_node("a"), a_node("b")])
    snapshot.close(Row(0))
    with snapshot.fork():
        snapshot.give_row(Row(0), a_node("c"))
        assert snapshot.facts.row_of[NodeName("c")] == 0
        assert snapshot.facts.live[0]
    assert snapshot.facts.nodes[0].name == "a"
    assert not snapshot.facts.live[0]
    assert NodeName("c") not in snapshot.facts.row_of


def test_a_row_in_use_is_not_given_away() -> None:
    snapshot = ClusterSnapshot.build([a_node("a"), a_node("b")])
    with pytest.raises(ValueError, match="row 0: got node c for a, want a closed row without pods"):
        snapshot.give_row(Row(0), a_node("c"))
