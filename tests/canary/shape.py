"""The shape of JSON bodies: which keys they have at which places, and values of which types.

Values differ between two runs, and keys that are names too; both are left out. So two recordings of the same version have equal
shapes, and a difference is one of the wire format.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: Keys whose own keys are names of nodes, labels, resources or the like.
_BY_NAME: Final = frozenset(
    {"NodeNameToMetaVictims", "NodeNameToVictims", "labels", "annotations", "nodeSelector", "limits", "requests", "allocatable"}
)
#: Written by the API server about who wrote what: says nothing about the call.
_LEFT_OUT: Final = frozenset({"managedFields"})
Shape = dict[str, str]


def shape_of(body: Any) -> Shape:
    """The type of each place of a body, by its path: "Pod.spec.containers[].name" -> "string"."""
    return dict(sorted(_places(body, "")))


def _places(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield path, "object"
        named = path.rpartition(".")[2] in _BY_NAME
        for key, inside in value.items():
            if key not in _LEFT_OUT:
                yield from _places(inside, f"{path}.{'*' if named else key}".lstrip("."))
    elif isinstance(value, list):
        yield path, "list"
        for inside in value:
            yield from _places(inside, f"{path}[]")
    else:
        yield path, {str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


def differences(before: Shape, now: Shape) -> list[str]:
    """One line for each place that came, went, or has another type."""
    gone = [f"gone: {path} ({before[path]})" for path in sorted(set(before) - set(now))]
    new = [f"new: {path} ({now[path]})" for path in sorted(set(now) - set(before))]
    common = sorted(set(before) & set(now))
    return gone + new + [f"{path}: {before[path]} -> {now[path]}" for path in common if before[path] != now[path]]
