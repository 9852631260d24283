"""Label and field selectors, in a request's words and in an object's."""

import re
from collections.abc import Callable
from typing import Any, Final

from slackwater.sandbox.embedded.faults import Json, bad_request

Match = Callable[[Json], bool]

_SETS: Final = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_PARTS: Final = re.compile(r",(?![^(]*\))")


def matching(*, labels: str, fields: str) -> Match | None:
    """None where everything matches. Raises `Fault` (400)."""
    tests = [*map(_label_test, _PARTS.split(labels) if labels else ()), *map(_field_test, fields.split(",") if fields else ())]
    return (lambda body: all(test(body) for test in tests)) if tests else None


def _label_test(text: str) -> Match:
    if found := _SETS.match(text):
        name, how, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda body: (_labels(body).get(name) in values) == (how == "in")
    name, operator, value = _split(text.strip())
    if operator == "!=":
        return lambda body: _labels(body).get(name) != value
    if operator:
        return lambda body: _labels(body).get(name) == value
    if name.startswith("!"):
        return lambda body: name[1:] not in _labels(body)
    return lambda body: name in _labels(body)


def _field_test(text: str) -> Match:
    name, operator, value = _split(text.strip())
    if not operator:
        raise bad_request(f"invalid selector: {text!r}; can't understand it")
    path = name.split(".")
    return lambda body: (_at(body, path) == value) == (operator != "!=")


def _split(text: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        name, found, value = text.partition(operator)
        if found:
            return name.strip(), operator, value.strip()
    return text, "", ""


def _at(body: Json, path: list[str]) -> str:
    found: Any = body
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return "" if found is None else str(found)


def _labels(body: Json) -> dict[str, str]:
    return body["metadata"].get("labels") or {}


def selects(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector of an object selects these labels; one that is absent selects nothing."""
    if selector is None:
        return False
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(rule, labels) for rule in selector.get("matchExpressions") or ())


def _expression(rule: Json, labels: dict[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
