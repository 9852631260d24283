"""Strategies: JSON documents that are almost right, with something else at some places; and bytes that are almost JSON."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**40])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ["", "1", "-1", "1e1000", "9" * 50, "1Ei", "0.1m", "NaN", "\x00", "a/b", "../..", "In", "Exists", "é" * 300]
    )
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=5
)

Path = tuple[str | int, ...]
#: Deeper than any parser here goes along with.
DEEP = 20_000


def places(tree: Any, at: Path = ()) -> list[Path]:
    found = [at] if at else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += places(value, (*at, key))
    if isinstance(tree, list):
        for index, value in enumerate(tree):
            found += places(value, (*at, index))
    return found


def with_changes(document: Any, changes: list[tuple[Path, Any]]) -> Any:
    changed = copy.deepcopy(document)
    for place, value in changes:
        holder = changed
        try:
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has replaced something above this place
    return changed


def mangled(document: Any) -> st.SearchStrategy[Any]:
    """`document` with anything at up to three of its places."""
    change = st.tuples(st.sampled_from(places(document)), anything)
    return st.lists(change, min_size=1, max_size=3).map(lambda changes: with_changes(document, changes))


def mangled_bytes(document: Any) -> st.SearchStrategy[bytes]:
    """The same as JSON, half of the time cut off, with bytes replaced, or nested without end."""
    return mangled(document).map(lambda made: json.dumps(made).encode()) | spoiled(json.dumps(document).encode())


def spoiled(text: bytes) -> st.SearchStrategy[bytes]:
    at = st.integers(0, max(len(text) - 1, 0))
    cut = at.map(lambda where: text[:where])
    put = st.tuples(at, st.binary(max_size=8)).map(lambda found: text[: found[0]] + found[1] + text[found[0] + 1 :])
    deep = st.sampled_from([b"[", b'{"a":']).map(lambda opening: text[:-1] + b',"x":' + opening * DEEP)
    twice = st.just(text + text)
    return cut | put | deep | twice | st.binary(max_size=60)
