"""Whatever a file holds, the answer is settings or a list of problems with a place; never another error."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.app.settings import Settings, SettingsError, as_file, loads
from tests.support.mangled import Path, places, with_changes

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
keys = st.sampled_from(["name", "template", "labels", "cpu", "address", "tls", "certFile", "nodeGroups", "[key]"]) | st.text(
    max_size=4
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


def a_full_file() -> dict[str, Any]:
    file = as_file(Settings())
    file["listeners"]["ops"]["tls"] = {"certFile": "c", "keyFile": "k"}
    template = {"metadata": {"labels": {"a": "b"}}, "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}}
    file["autoscaler"]["nodeGroups"] = [{"name": "a"}, {"name": "b", "template": template}]
    return file


PLACES = places(a_full_file())


def read(text: str) -> None:
    try:
        loads(text)
    except SettingsError as err:
        refused = err
    else:
        return
    assert refused.problems
    assert all(problem.seen and problem.wanted for problem in refused.problems)
    assert str(refused).encode()


@given(text=st.text(max_size=60))
@example(text="{")
@example(text="a: &a\n  b: *a")
def test_any_text(text: str) -> None:
    read(text)


@given(data=st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
def test_any_characters(data: str) -> None:
    read(data)


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), anything), min_size=1, max_size=4))
@example(changes=[(("autoscaler", "nodeGroups", 1, "template", "metadata", "labels"), {"[key]": 1, "-": 2})])
@example(changes=[(("autoscaler", "nodeGroups", 0), {}), (("listeners",), {"ops": {"tls": {}}})])
def test_a_file_with_anything_at_some_places(changes: list[tuple[Path, object]]) -> None:
    read(json.dumps(with_changes(a_full_file(), changes)))
