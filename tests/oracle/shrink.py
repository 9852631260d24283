"""Makes a failing cluster small: takes objects away, then parts of objects, while the same difference stays."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.oracle.generator.draw import Obj

Path = tuple[str | int, ...]


def smallest(cluster: Obj, still_fails: Callable[[Obj], bool]) -> Obj:
    """A cluster from which nothing more can be taken without losing the difference, or its validity.

    `still_fails` has to answer False for a cluster that an API server would not hold. Some thousand calls.
    """
    cluster = _without_items(cluster, still_fails)
    shrunk = True
    while shrunk:
        shrunk = False
        for path in list(_parts(cluster)):
            fewer = _without(cluster, path)
            if fewer is not None and still_fails(fewer):
                cluster, shrunk = fewer, True
    return cluster


def _without_items(cluster: Obj, still_fails: Callable[[Obj], bool]) -> Obj:
    size = max(1, len(cluster["items"]) // 2)
    while True:
        start = 0
        while start < len(cluster["items"]):
            items = cluster["items"]
            fewer = {**cluster, "items": items[:start] + items[start + size :]}
            if still_fails(fewer):
                cluster = fewer
            else:
                start += size
        if size == 1:
            return cluster
        size //= 2


def _parts(cluster: Obj) -> Iterator[Path]:
    """Paths of everything inside the items, the outer before the inner."""

    def inside(thing: Any, path: Path) -> Iterator[Path]:
        if isinstance(thing, dict):
            steps: list[str | int] = list(thing)
        else:
            # From the end, so that the paths of those before stay what they are.
            steps = [*range(len(thing) - 1, -1, -1)] if isinstance(thing, list) else []
        for step in steps:
            yield (*path, step)
            yield from inside(thing[step], (*path, step))

    for i in range(len(cluster["items"]) - 1, -1, -1):
        yield ("items", i)
        yield from inside(cluster["items"][i], ("items", i))


def _without(cluster: Obj, path: Path) -> Obj | None:
    """A copy without the part; None where it has gone already."""
    fewer = copy.deepcopy(cluster)
    thing: Any = fewer
    try:
        for step in path[:-1]:
            thing = thing[step]
        del thing[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return fewer
