"""Which group a node belongs to: its label first, then its machine."""

import pytest

from slackwater.model.nodegroups import GroupName, Instance, InstanceId, Membership, NodeGroup
from slackwater_protocol.names import NODE_GROUP
from tests.support.builders import a_node


def group(name: str, *ids: str) -> NodeGroup:
    instances = tuple(Instance(id=InstanceId(id), state="running") for id in ids)
    name_ = GroupName(name)
    return NodeGroup(name=name_, provider="p", min_size=0, max_size=9, target=len(ids), instances=instances)


GROUPS = (group("a", "cloud://1"), group("b", "cloud://2"), group("empty"))


@pytest.mark.parametrize(
    ("label", "provider_id", "want"),
    [
        ("a", "", "a"),
        ("empty", "", "empty"),
        (None, "cloud://2", "b"),
        ("a", "cloud://2", "a"),
        ("elsewhere", "cloud://2", "b"),
        ("elsewhere", "", None),
        (None, "cloud://3", None),
        (None, "", None),
        ("", "cloud://1", "a"),
    ],
)
def test_the_label_decides_where_it_names_a_group_else_the_machine(
    label: str | None, provider_id: str, want: str | None
) -> None:
    node = a_node("n", labels={} if label is None else {NODE_GROUP: label}, provider_id=provider_id)
    assert Membership(GROUPS).group_of(node) == want
