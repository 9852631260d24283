"""What the log says of objects that cannot be read."""

import pytest
import structlog
from structlog.testing import capture_logs

from slackwater.app.event_sources import BrokenObjects


def test_an_object_is_logged_once_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody who may create a pod may change its annotations a thousand times; each change is an event."""
    monkeypatch.setattr("slackwater.app.event_sources._log", structlog.get_logger())  # other tests configure the old one
    broken_objects = BrokenObjects()
    with capture_logs() as lines:
        for _ in range(1000):
            broken_objects("pods", "shop/web-1", ValueError("bounds: no JSON"))
        broken_objects("pods", "shop/web-1", ValueError("x" * 100_000))
        broken_objects("pods", "shop/web-2", ValueError("bounds: no JSON"))
    assert [(line["name"], len(line["error"])) for line in lines] == [
        ("shop/web-1", 15),
        ("shop/web-1", 500),
        ("shop/web-2", 15),
    ]
