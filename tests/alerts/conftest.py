"""The built promtool. It is built before the first test: with a cold Go cache that takes longer than a test may."""

from pathlib import Path

import pytest

from tests.alerts.program import build
from tests.support.goprogram import build_if_used


def pytest_collection_finish(session: pytest.Session) -> None:
    build_if_used(session, "promtool", build)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The real promtool."""
    return build()
