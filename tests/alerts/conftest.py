"""The built promtool. It is built before the first test: with a cold Go cache that takes longer than a test may."""

from pathlib import Path

import pytest

from tests.alerts.program import build


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the program where a collected test uses it, with the progress in sight."""
    used = any("promtool" in getattr(item, "fixturenames", ()) for item in session.items)
    if session.config.option.collectonly or not used:
        return
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build()


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The real promtool."""
    return build()
