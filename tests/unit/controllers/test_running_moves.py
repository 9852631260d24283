"""Moves that begin: the first of a plan, without those that cannot be carried out any more."""

from slackwater.controllers.consolidation.outcome import ConsolidationMove, LeavingNode, NewNode, PodMove, new_name
from slackwater.controllers.consolidation.running_moves import begun
from slackwater.model.ids import NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName

GROUP = GroupName("a")
COMES = new_name(GROUP, 1)


def a_move(leaving: str, *to: str, after: tuple[int, ...] = ()) -> ConsolidationMove:
    """A node goes, each of whose pods goes to one of these. `COMES` comes with this move unless it is `after` another."""
    node = NodeName(leaving)
    pods = tuple(
        PodMove(PodUid(f"{leaving}-{at}"), PodKey("default", f"{leaving}-{at}"), node, NodeName(name))
        for at, name in enumerate(to)
    )
    coming = (NewNode(COMES, GROUP, GROUP, 1),) if COMES in to and not after else ()
    return ConsolidationMove(
        leaving=(LeavingNode(node, GROUP, 2),), coming=coming, pods=pods, after=after, saved=1, disruption=1.0, ratio=1.0,
        moving_cost=0, risky=False,
    )  # fmt: skip


def first(*moves: ConsolidationMove, there: set[str]) -> list[str]:
    """The nodes that go, of the moves that begin while these nodes are there."""
    batch = begun(moves, {}, UnixTime(0.0), {}, young=frozenset(), there={NodeName(name) for name in there}, most=10)
    return [each.name for running in batch.moves for each in running.move.leaving]


def test_a_move_needs_the_nodes_that_go_and_those_to_which_pods_go() -> None:
    moves = a_move("n1", "n3", COMES), a_move("n2", "n4")
    assert first(*moves, there={"n1", "n2", "n3", "n4"}) == ["n1", "n2"]
    assert first(*moves, there={"n2", "n3", "n4"}) == ["n2"]
    assert first(*moves, there={"n1", "n2", "n3"}) == ["n1"]


def test_a_move_that_uses_the_new_nodes_of_one_left_out_is_left_out_too() -> None:
    moves = a_move("n1", COMES), a_move("n2", COMES, after=(0,))
    assert first(*moves, there={"n1", "n2"}) == ["n1", "n2"]
    assert first(*moves, there={"n2"}) == []
