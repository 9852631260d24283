"""The canary's report: equal recordings say nothing, and every difference is named with its place."""

from tests.canary.report import Recording, changes
from tests.canary.shape import differences, shape_of


def test_the_shape_has_places_and_types_but_no_values_and_no_names() -> None:
    body = {
        "Pod": {"metadata": {"labels": {"app": "x"}, "managedFields": [1]}, "n": 1, "ok": True},
        "NodeNames": ["a", "b"],
        "Nodes": None,
    }
    assert shape_of(body) == {
        "": "object",
        "NodeNames": "list",
        "NodeNames[]": "string",
        "Nodes": "null",
        "Pod": "object",
        "Pod.metadata": "object",
        "Pod.metadata.labels": "object",
        "Pod.metadata.labels.*": "string",
        "Pod.n": "number",
        "Pod.ok": "boolean",
    }


def test_what_came_what_went_and_what_changed_its_type_is_named() -> None:
    assert differences({"a": "string", "b": "list"}, {"b": "null", "c": "number"}) == [
        "gone: a (string)",
        "new: c (number)",
        "b: list -> null",
    ]


def test_another_order_of_calls_is_named() -> None:
    before = Recording(kubernetes="1.36.3", sequences={"nominated": ["filter:1", "bind"]}, shapes={"bind": {"Node": "string"}})
    now = Recording(kubernetes="1.99.0", sequences={"nominated": ["filter:3", "prioritize:3", "bind"]}, shapes={"bind": {}})
    assert changes(before, before) == []
    assert changes(before, now) == [
        "calls about a nominated pod: filter:1 -> bind; now filter:3 -> prioritize:3 -> bind",
        "bind: gone: Node (string)",
    ]
