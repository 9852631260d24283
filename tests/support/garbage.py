"""What tests ask of the garbage collector.

A service inside the process of the tests must not freeze their objects. `tests/conftest.py` freezes what was imported. A
service that freezes too needs `gc.unfreeze()` at its end, and from then on each collection looks at every imported module
again: twenty times slower in a process that runs thousands of tests.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def no_freezing() -> Iterator[None]:
    """While it lasts `gc.freeze` does nothing; afterwards the thresholds are those of before."""
    thresholds = gc.get_threshold()
    try:
        with patch("gc.freeze"):
            yield
    finally:
        gc.set_threshold(*thresholds)


@contextmanager
def no_collecting() -> Iterator[None]:
    """Collects what is garbage, and then nothing more while it lasts: what goes meanwhile goes with its last user."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
