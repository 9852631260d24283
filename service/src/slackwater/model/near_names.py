"""Which known name somebody may have meant by a name that does not exist.

    near_name("spto", ["spot", "on-demand"])           # "spot"
    near_name("us-west-1", ["us-east-1"])              # None: somewhere else, not misspelt

Names in a cluster differ on purpose by a number, a letter after one, or a whole word: pool-1 and pool-2, us-east-1a and
us-east-1b, large and xlarge. So only what fingers do counts: other case or separators, two letters swapped, one letter left out
or typed in addition, and in longer words one wrong letter; never the first letter, and never a digit.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

_PARTS: Final = re.compile(r"[a-z]+|[0-9]+")
#: Shorter words differ on purpose too easily.
_SHORTEST: Final = 3
#: Below this length one other letter makes another word: west and east, dev and den.
_SHORTEST_WITH_OTHER_LETTER: Final = 6
#: Longer names are not compared, and of more known ones only the first.
_LONGEST: Final = 316
_MOST_KNOWN: Final = 10_000


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely meant to be; None if none is likely, or if it is known itself."""
    if len(name) > _LONGEST:
        return None
    wanted, found = _PARTS.findall(name.lower()), list[tuple[int, str]]()
    for other in islice(known, _MOST_KNOWN):
        if other == name:
            return None
        if len(other) <= _LONGEST and (slips := _slips(wanted, _PARTS.findall(other.lower()))) is not None:
            found.append((slips, other))
    return min(found)[1] if found else None


def _slips(wanted: list[str], other: list[str]) -> int | None:
    """How many words have a slip of the fingers, at most one; None if they differ by more."""
    if not wanted or len(wanted) != len(other):
        # Separators may be missing or added: node-type, nodetype.
        return 0 if wanted and "".join(wanted) == "".join(other) else None
    different = [(mine, theirs) for mine, theirs in zip(wanted, other, strict=True) if mine != theirs]
    if not different:
        return 0
    return 1 if len(different) == 1 and _is_slip(*different[0]) else None


def _is_slip(mine: str, theirs: str) -> bool:
    if mine[0] != theirs[0] or min(len(mine), len(theirs)) < _SHORTEST or not (mine.isalpha() and theirs.isalpha()):
        return False
    begin = next(
        (at for at, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two), min(len(mine), len(theirs))
    )
    rest, their_rest = mine[begin:], theirs[begin:]
    if len(mine) != len(theirs):
        return rest[1:] == their_rest or rest == their_rest[1:]
    swapped = rest[1::-1] + rest[2:] == their_rest
    return swapped or (len(mine) >= _SHORTEST_WITH_OTHER_LETTER and rest[1:] == their_rest[1:])
