"""The dice of one cluster: the same seed and index give the same cluster on every machine."""

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")
#: A Kubernetes object, or a part of one, as JSON has it.
Obj = dict[str, Any]

#: What a cluster may be about. Each one is about a few: were all of them in every cluster, the first plug-ins would
#: reject nearly every node and the last ones would never be asked.
THEMES: Final = (
    "taints",
    "affinity",
    "ports",
    "resources",
    "disks",
    "limits",
    "binding",
    "zones",
    "spread",
    "between",
    "extras",
)
#: How many lots each theme has: the last plug-ins get more, since the others reject before them.
_LOTS: Final = {"limits": 2, "binding": 2, "zones": 2, "spread": 3, "between": 3}
_IDLE: Final = 0.01


class Draw:
    """Random choices of one cluster."""

    def __init__(self, seed: int, index: int, stream: str = "", *, themes: tuple[int, int] = (1, 4)) -> None:
        """`stream` names other dice of the same cluster; `themes` is how many themes it has at least and at most."""
        self._random = random.Random(f"{seed}/{index}{stream}")
        lots = [theme for theme in THEMES for _ in range(_LOTS.get(theme, 1))]
        self.themes = frozenset(self._random.sample(lots, self._random.randint(*themes)))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def about(self, theme: str, share: float) -> bool:
        """True in `share` of the calls where the cluster is about `theme`, and now and then elsewhere."""
        assert theme in THEMES, theme
        return self.chance(share if theme in self.themes else share * _IDLE)

    def number(self, low: int, high: int) -> int:
        """Both ends included."""
        return self._random.randint(low, high)

    def pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def some(self, choices: Sequence[T], low: int, high: int) -> list[T]:
        """Between `low` and `high` different members, in any order."""
        return self._random.sample(choices, min(len(choices), self.number(low, high)))
