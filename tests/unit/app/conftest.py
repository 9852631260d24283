"""What the tests of the top floor share."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    """Commands that keep running set up logging for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
