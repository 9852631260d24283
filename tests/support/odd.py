"""Objects with one field that is not as its type says."""

import copy
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

Json = dict[str, Any]
Path = tuple[Any, ...]

#: Values that a field may have by mistake.
ODD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["-1", "1e400", "10%%", "Never", "5 minutes", "Gte", "0", "9" * 400, "²"]),
    st.lists(st.one_of(st.text(max_size=3), st.integers()), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(part: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all fields within a JSON value."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def changed(found: Json, at: Path, to: Any) -> Json:
    """The value with another one at the path."""
    whole = copy.deepcopy(found)
    part = whole
    for step in at[:-1]:
        part = part[step]
    part[at[-1]] = to
    return whole
