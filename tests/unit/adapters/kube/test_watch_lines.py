"""What an event source gives out is the difference to what it gave out before."""

import pytest

from slackwater.adapters.kube.resource_type import Found
from slackwater.adapters.kube.watch_lines import KnownObjects
from slackwater.model.events import NodeGone, NodeSeen, SourceEvent
from slackwater.model.ids import NodeName
from tests.support.builders import a_node


def gone(name: str, _uid: str = "") -> SourceEvent:
    return NodeGone(NodeName(name))


def found(name: str, version: int, uid: str = "u1") -> Found[str]:
    return Found(name, uid, version, NodeSeen(a_node(f"{name}@{version}")))


def _named(event: SourceEvent) -> str:
    assert isinstance(event, NodeSeen | NodeGone)
    return event.node.name if isinstance(event, NodeSeen) else f"gone {event.name}"


@pytest.fixture
def given() -> KnownObjects[str]:
    given = KnownObjects(gone)
    assert [_named(event) for event in given.watched(found("a", 10))] == ["a@10"]
    return given


@pytest.mark.parametrize(
    ("next_one", "want"),
    [
        (found("a", 11), ["a@11"]),
        (found("a", 10), []),
        (found("a", 9), []),
        (found("a", 3, uid="u2"), ["gone a", "a@3"]),
        (found("a", 0), ["a@0"]),
        (found("b", 1), ["b@1"]),
    ],
    ids=["newer", "the same", "older", "successor of the same name", "version is no number", "another"],
)
def test_a_watch_gives_out_what_is_news(given: KnownObjects[str], next_one: Found[str], want: list[str]) -> None:
    events = [_named(event) for event in given.watched(next_one)]
    assert events == want


@pytest.mark.parametrize(
    ("next_one", "want"),
    [(found("a", 11), ["a@11"]), (found("a", 10), []), (found("a", 9), ["gone a", "a@9"])],
    ids=["newer", "the same", "older: history went back"],
)
def test_a_list_is_the_truth_even_where_it_is_older(given: KnownObjects[str], next_one: Found[str], want: list[str]) -> None:
    given.begin_list()
    assert [_named(event) for event in given.listed(next_one)] == want
    assert list(given.end_list()) == []


def test_what_a_list_does_not_show_is_gone(given: KnownObjects[str]) -> None:
    given.watched(found("b", 11))
    given.watched(found("c", 12))
    given.begin_list()
    given.listed(found("b", 11))
    given.unreadable("c")
    assert list(given.end_list()) == [gone("a")]
    assert len(given) == 2


def test_a_list_that_broke_off_and_begins_again_forgets_what_the_first_half_had_shown(given: KnownObjects[str]) -> None:
    given.watched(found("b", 11))
    given.begin_list()
    given.listed(found("a", 10))
    given.begin_list()
    given.listed(found("b", 11))
    assert list(given.end_list()) == [gone("a")]


def test_a_deletion_is_given_out_once_and_never_meets_a_successor(given: KnownObjects[str]) -> None:
    assert given.deleted("a", "u2") == []
    assert given.deleted("a", "u1") == [gone("a")]
    assert given.deleted("a", "u1") == []
