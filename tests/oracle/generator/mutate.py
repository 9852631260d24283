"""Changes parts of a cluster at random: what the generator's own habits would never put together.

A part is taken away, or replaced by one that has the same key elsewhere in the cluster. Many results are not valid; whoever
asks has to leave those out.
"""

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.oracle.generator.draw import Draw, Obj

_MOST = 5
#: The oracle does not say whether others are valid.
_UNJUDGED = frozenset({"Service", "ReplicaSet", "StatefulSet", "ReplicationController"})
#: Changing these only makes an object unreadable, or another one.
_FIXED = frozenset({"apiVersion", "kind", "name", "namespace"})


def mutated(cluster: Obj, draw: Draw) -> Obj:
    """A copy with up to `_MOST` changes."""
    made = copy.deepcopy(cluster)
    items = [item for item in made["items"] if item["kind"] not in _UNJUDGED]
    for _ in range(draw.number(1, _MOST)):
        item = draw.pick(items)
        places = [place for place in _places(item) if place[1] not in _FIXED]
        holder, key = draw.pick(places) if places else (item, "")
        alike = _values(made).get(key, []) if isinstance(key, str) else []
        if alike and draw.chance(0.6):
            holder[key] = copy.deepcopy(draw.pick(alike))
        elif places:
            del holder[key]
    made["items"] = list(_first_of_each(made["items"]))
    return made


def _first_of_each(items: list[Obj]) -> Iterator[Obj]:
    """A replaced part may be another object's metadata; no API server holds two objects of one name."""
    seen = set()
    for item in items:
        meta = item.get("metadata") or {}
        identity = (item["kind"], meta.get("namespace") or "default", meta.get("name"))
        if identity not in seen:
            seen.add(identity)
            yield item


def _places(thing: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key or index) inside a thing."""
    keys = list(thing) if isinstance(thing, dict) else range(len(thing)) if isinstance(thing, list) else ()
    for key in keys:
        yield thing, key
        yield from _places(thing[key])


def _values(cluster: Obj) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for item in cluster["items"]:
        for holder, key in _places(item):
            if isinstance(key, str):
                found[key].append(holder[key])
    return found
