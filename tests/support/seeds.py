"""The seed of a test that leaves something to chance: the same each time in CI, fresh ones under `make soak`.

SLACKWATER_TEST_SEED gives every test that seed, to repeat what a fresh one found; a test may have a variable of its own.
"""

import os
import secrets
from typing import Final

#: Whether seeds, and Hypothesis' examples, are new ones each time.
FRESH: Final = os.environ.get("SLACKWATER_TEST_FRESH", "") == "1"
_ANY: Final = "SLACKWATER_TEST_SEED"
_FIXED: Final = 1


def examples(full: int) -> int:
    """The number of examples of a law that costs seconds: all of them where they are fresh, two fifths of them in CI."""
    return full if FRESH else full * 2 // 5


def a_seed(variable: str = _ANY) -> int:
    """The seed, which is printed: the given one, a fresh one where those are wanted, or always the same."""
    given = os.environ.get(variable) or os.environ.get(_ANY)
    seed = int(given) if given else secrets.randbits(32) if FRESH else _FIXED
    print(f"{variable}={seed}")
    return seed
