"""When the pieces of slack keep the size of the loop before."""

from slackwater.controllers.slack.planning_input import SlackInput
from slackwater.controllers.slack.rate_sizing import cut
from slackwater.controllers.slack.state import steadied
from slackwater.model.ids import UnixTime
from slackwater.model.resources import Amounts
from tests.support.builders import amounts
from tests.support.slackening import a_rule


def _input(nodes: int, capacity: Amounts) -> SlackInput:
    pods = (amounts("6", "1536Mi"), amounts("500m", "512Mi"))
    return SlackInput(n_nodes=nodes, capacity=capacity, rooms=(amounts("4", "16Gi"), amounts("8", "32Gi")), pods=pods)


def test_a_former_size_does_not_stay_where_its_shape_needs_much_more_room() -> None:
    """The room for the largest pod takes most of the CPU asked for, so one node more doubles what is left of it."""
    rule = a_rule(0.25, sizing="v2")
    first = steadied(cut(rule, _input(6, amounts("28", "112Gi"))), None, now=UnixTime(0.0), shrink_seconds=600.0)
    found = cut(rule, _input(7, amounts("32", "128Gi")))
    then = steadied(found, first, now=UnixTime(10.0), shrink_seconds=600.0)
    assert 4 * sum(each.memory for each in then.pieces.sizes()) <= 5 * found.pieces.total.memory


def test_a_former_size_stays_where_a_node_more_changes_little() -> None:
    rule = a_rule(0.25, sizing="v2")
    first = steadied(cut(rule, _input(20, amounts("100", "400Gi"))), None, now=UnixTime(0.0), shrink_seconds=600.0)
    then = steadied(cut(rule, _input(21, amounts("104", "416Gi"))), first, now=UnixTime(10.0), shrink_seconds=600.0)
    assert then.pieces.size == first.pieces.size
