"""When the pieces of slack keep the size of the loop before."""

from slackwater.controllers.slack.planning_input import SlackInput
from slackwater.controllers.slack.rate_sizing import cut
from slackwater.controllers.slack.state import steadied
from slackwater.model.ids import UnixTime
from slackwater.model.resources import Amounts
from tests.support.builders import a_pod, amounts
from tests.support.scalingup import a_group
from tests.support.slackening import Cluster, a_machine, a_rule


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


def test_former_pieces_take_no_room_of_other_placeholders() -> None:
    """With the larger node gone, all that is asked for is room for the largest pod, and the former pieces are in its way."""
    cluster = Cluster(rules=[a_rule(0.25, sizing="v2")], groups=[a_group()], shrink_seconds=600.0)
    cluster.nodes = [a_machine("n1"), a_machine("n2", cpu="8", memory="32Gi")]
    cluster.pods = [a_pod("a", on="n1", cpu="2", memory="7Gi")]
    cluster.loop()
    assert cluster.nodes.pop().name == "n2"
    assert not cluster.loop().plan.scale_ups


def test_former_pieces_stay_where_other_pieces_would_help_nobody() -> None:
    """The largest pod finds no second place, whatever the pieces are."""
    cluster = Cluster(rules=[a_rule(0.25, sizing="v2")], shrink_seconds=600.0)
    cluster.nodes = [a_machine(name) for name in ("n0", "n1", "n2")]
    sizes = {"n0": "1500m", "n1": "3", "n2": "3"}
    cluster.pods = [a_pod(f"p-{name}", on=name, cpu=cpu, memory="2Gi") for name, cpu in sizes.items()]
    cluster.loop()
    before = cluster.places()
    cluster.nodes[2] = a_machine("n2", memory="14Gi")
    cluster.loop()
    assert cluster.places() == before
    assert {each.place is None for each in cluster.placeholders} == {True, False}
    assert {each.pod.kind.requests.memory for each in cluster.placeholders} == {2 << 30}
