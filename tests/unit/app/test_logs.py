"""One form for our own loggers and the libraries' ones."""

import io
import json
import logging

import pytest
import structlog

from slackwater.cli.commands.logs import set_up_logs

pytestmark = pytest.mark.usefixtures("loggers_as_before")


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    set_up_logs("json", stream=stream)
    structlog.get_logger("slackwater.test").info("bound", pod="ns/p", node="n")
    structlog.get_logger("slackwater.test").debug("hidden")
    logging.getLogger("uvicorn.error").warning("odd %s", "thing", extra={"client": "127.0.0.1"})
    logging.getLogger("httpx").info("hidden")
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert ours.pop("timestamp").endswith("Z")
    assert theirs.pop("timestamp").endswith("Z")
    assert ours == {"event": "bound", "pod": "ns/p", "node": "n", "level": "info", "logger": "slackwater.test"}
    assert theirs == {"event": "odd thing", "level": "warning", "logger": "uvicorn.error", "client": "127.0.0.1"}


def test_an_exception_is_part_of_its_line() -> None:
    stream = io.StringIO()
    set_up_logs("json", stream=stream)
    try:
        raise ValueError("seen")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_value"] == "seen"


def test_console_is_for_people() -> None:
    stream = io.StringIO()
    set_up_logs("console", stream=stream)
    structlog.get_logger().info("bound", pod="ns/p")
    assert "bound" in stream.getvalue()
    assert "pod=ns/p" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue()
