"""Through services/proxy: whether the listener may speak TLS follows from how the API server failed."""

import json

import pytest

from slackwater.cli.commands.service_proxy import _may_speak_tls


def status(message: str) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "body", "want"),
    [
        (400, b"Client sent an HTTP request to an HTTPS server.\n", True),
        (503, status("error trying to reach service: EOF"), True),
        (502, status("error trying to reach service: malformed HTTP response"), True),
        (503, status("error trying to reach service: dial tcp 10.0.0.1:10298: i/o timeout"), False),
        (503, status('no endpoints available for service "slackwater"'), False),
        (404, status('services "slackwater" not found'), False),
        (503, b'{"detail": "not ready"}', False),
        (400, b'{"detail": "got no since"}', False),
    ],
)
def test_tls_is_tried_where_a_connection_was_taken_and_not_understood(code: int, body: bytes, want: bool) -> None:
    assert _may_speak_tls(code, body) is want
