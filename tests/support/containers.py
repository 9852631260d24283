"""How many entries every container has that can be reached from some objects: what grows with all that ever came shows here.

Sizes are summed by where a container stands (`Holds._former`, `Claims._by_node[]`), so an object that is kept by mistake shows
by the container that keeps it. Followed are the attributes of our own objects, and what closures and bound methods hold.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

_PACKAGE = "slackwater"
#: What stands for the cluster keeps its history.
_NOT_OURS = "slackwater.sandbox.embedded"


def sizes(*roots: object) -> Counter[str]:
    """By the place of each container, its entries; what is empty is left out."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting = [(type(root).__name__, root) for root in roots]
    while waiting:
        place, item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Mapping | list | set | deque):
            found[place] += len(item)
        waiting += _within(place, item)
    return +found


def _within(place: str, item: object) -> Iterable[tuple[str, object]]:
    if isinstance(item, Mapping):
        item = [each for pair in list(item.items()) for each in pair]
    if isinstance(item, list | tuple | set | frozenset | deque):
        return ((f"{place}[]", each) for each in list(item) if not isinstance(each, str | int))
    if isinstance(item, MethodType | partial | FunctionType):
        return ((place, each) for each in _held(item))
    ours = type(item).__module__.startswith(_PACKAGE) and not type(item).__module__.startswith(_NOT_OURS)
    return _attributes(item) if ours else ()


def _held(call: "MethodType | partial[Any] | FunctionType") -> list[object]:
    if isinstance(call, MethodType):
        return [call.__self__]
    if isinstance(call, partial):
        return [call.func, *call.args]
    return [cell.cell_contents for cell in call.__closure__ or () if _is_filled(cell)]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    kind = type(item)
    names = [*getattr(item, "__dict__", ()), *(name for each in kind.__mro__ for name in getattr(each, "__slots__", ()))]
    for name in names:
        if hasattr(item, name):
            yield f"{kind.__name__}.{name}", getattr(item, name)
