"""The built oracle. It is built before the first test: with a cold Go cache that takes longer than any test may."""

from pathlib import Path

import pytest

from tests.oracle.program import build
from tests.support.goprogram import build_if_used


def pytest_collection_finish(session: pytest.Session) -> None:
    build_if_used(session, "program", build)


@pytest.fixture(scope="session")
def program() -> Path:
    """The program that runs the real plug-ins."""
    return build()
