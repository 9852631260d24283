"""What `worth` does with a plan of consolidation whose first moves have begun."""

from slackwater.app.rounds.left_moves import left_moves
from slackwater.controllers.consolidation.outcome import ConsolidationMove, LeavingNode, NewNode, PodMove, new_name
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.nodegroups import GroupName
from tests.support.consolidating import RULES

GROUP = GroupName("a")
PRICE = 4


def a_move(*leaving: str, new: int = 0, after: tuple[int, ...] = (), saved: int = 6) -> ConsolidationMove:
    """Nodes go and save `saved` with the price of `new` new nodes taken off; a unit of it has a ratio of 1."""
    names = [NodeName(name) for name in leaving]
    return ConsolidationMove(
        leaving=tuple(LeavingNode(name, GROUP, 10) for name in names),
        coming=tuple(NewNode(new_name(GROUP, number), GROUP, GROUP, PRICE) for number in range(new)),
        pods=tuple(PodMove(PodUid(name), PodKey("default", name), name, NodeName("n-0")) for name in names),
        after=after,
        saved=saved,
        disruption=float(len(names)),
        ratio=saved / len(names),
        moving_cost=0,
        risky=False,
    )


def left(
    *moves: ConsolidationMove, begun: str = "", gone: str = "", most: int = 10
) -> list[tuple[str, int, int, tuple[int, ...]]]:
    """The moves that are left: the nodes that go, how many come, what is saved, and after which others."""
    names = {each.name for move in moves for each in move.leaving}
    there = names - {NodeName(name) for name in (*begun, *gone)}
    found = left_moves(moves, RULES.policy, begun={NodeName(name) for name in begun}, there=there, most=most)
    return [("".join(each.name for each in move.leaving), len(move.coming), move.saved, move.after) for move in found]


def test_the_new_nodes_of_a_move_that_has_begun_are_there() -> None:
    moves = a_move("a", new=1), a_move("b", after=(0,)), a_move("c", new=1), a_move("d", after=(0, 2))
    assert left(*moves, begun="a") == [("b", 0, 6, ()), ("c", 1, 6, ()), ("d", 0, 6, (1,))]


def test_the_next_move_brings_the_new_nodes_of_one_that_cannot_begin() -> None:
    moves = a_move("a", new=1), a_move("b", after=(0,)), a_move("c", after=(0,))
    assert left(*moves, gone="a") == [("b", 1, 2, ()), ("c", 0, 6, (0,))]


def test_moves_that_pay_only_together_for_new_nodes_begin_together() -> None:
    moves = a_move("a", new=2), a_move("b", after=(0,)), a_move("c", after=(0,)), a_move("d", after=(1,))
    assert left(*moves, gone="a") == [("bc", 2, 4, ()), ("d", 0, 6, (0,))]
    assert left(*moves, gone="a", most=1) == []


def test_new_nodes_for_which_nothing_pays_do_not_come() -> None:
    assert left(a_move("a", new=2), a_move("b", after=(0,)), a_move("c"), gone="a") == [("c", 0, 6, ())]
