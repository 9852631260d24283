"""Laws of the recognition of repeated heads: with it and without it, an application is asked the same and a caller hears the
same, however the bytes arrive."""

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.adapters.http.application import Answer, BodyBudget, Request, RequestTerms
from slackwater.adapters.http.http_server import DirectProtocol
from slackwater.adapters.http.request_parser import RepeatedHeads

_PATHS = st.sampled_from([b"/scheduler/filter", b"/scheduler/filter?a=b", b"http://host/scheduler/bind"])
_METHODS = st.sampled_from([b"POST", b"HEAD", b"DELETE"])
_LINES = st.sampled_from(
    [
        b"Accept-Encoding: gzip",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Content-Length: 3",
        b"Content-Type: application/json",
        b"Expect: 100-continue",
        b"Transfer-Encoding: chunked",
        b"Upgrade: h2c",
        b"X-Note: content-length: 3",
    ]
)
_BODIES = st.sampled_from([b"", b"abc", b"0123456789", b"x" * 100, b"x" * 101, b"3\r\nabc\r\n0\r\n\r\n", b"a\r\n\r\nb"])
_LENGTHS = st.sampled_from([b"Content-Length: %d", b"content-length: %d", b"Content-Length:%d", b"Content-Length: 00%d"])


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    """One request, which may be wrong about its body."""
    lines = draw(st.lists(_LINES, max_size=2))
    body = draw(_BODIES)
    if draw(st.integers(0, 9)):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(_LENGTHS) % max(0, len(body) + draw(st.sampled_from([0, 0, 0, -1, 1])))
        )
    head = b"\r\n".join([b"%b %b HTTP/1.1" % (draw(_METHODS), draw(_PATHS)), b"Host: t", *lines])
    return head + b"\r\n\r\n" + body


class _App:
    def __init__(self) -> None:
        self.bodies = BodyBudget(250)
        self.terms = RequestTerms(max_body_bytes=100, bodies=self.bodies, headers=frozenset({b"x-note"}))
        self.asked: list[tuple[Request, int]] = []  # with the bytes of bodies that were kept then

    def answer(self, request: Request) -> Answer:
        self.asked.append((request, self.bodies.held))
        return Answer(200, b"%b %d" % (request.path.encode(), len(request.body)))

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return Answer(status, f"{path}: {message}".encode())


class _Transport:
    def __init__(self) -> None:
        self.heard = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.heard += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        return ("10.0.0.1", 1) if name == "peername" else None


class _Connection:
    """One connection, with its application and its caller."""

    def __init__(self) -> None:
        self.app, self.transport = _App(), _Transport()
        config = SimpleNamespace(app=self.app, timeout_keep_alive=60)
        state = SimpleNamespace(connections=set(), tasks=set())
        place = SimpleNamespace(release=lambda: None)
        loop = SimpleNamespace(time=lambda: 0.0, call_later=lambda *_: SimpleNamespace(cancel=lambda: None))
        self.protocol = DirectProtocol(
            cast("Any", config), cast("Any", state), {}, cast("Any", loop), enter=lambda _: cast("Any", place)
        )
        self.protocol.connection_made(cast("Any", self.transport))

    def takes(self, data: bytes) -> None:
        if not self.transport.closed:
            self.protocol.data_received(data)

    def outcome(self) -> object:
        return self.app.asked, self.transport.heard, self.transport.closed

    def ends(self) -> None:
        self.protocol.connection_lost(None)
        assert self.app.bodies.held == 0


_CALL = b"POST /scheduler/filter HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%b"


def _call(*lines: bytes) -> bytes:
    return b"\r\n".join([b"POST /scheduler/filter HTTP/1.1", b"Host: t", *lines]) + b"\r\nContent-Length: 3\r\n\r\nabc"


#: What arrives at once or in two parts, some times over: a request, or two together.
_ARRIVALS = st.tuples(
    st.lists(_requests(), min_size=1, max_size=2).map(b"".join), st.integers(1, 3), st.sampled_from([0, 0, 0, 1, 40])
)


@given(st.lists(_ARRIVALS, min_size=1, max_size=4))
@example([(_call(), 2, 0), (_CALL % (3, b"abcd"), 1, 0), (_CALL % (10, b"abc"), 1, 0)])
@example([(_call(), 1, 0), (_CALL % (len(_call()), _call()), 1, len(_CALL % (len(_call()), b"")))])
@example([(_call(b"X-Note: a"), 2, 0), (_call(b"X-Note: b"), 2, 0)])
@example([(_call(b"Expect: 100-continue"), 2, 0)])
@example([(_call(b"Upgrade: h2c", b"Connection: upgrade"), 2, 0)])
@example([(_call() + b"DELETE /other HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n", 1, 0), (_call(), 1, 0)])
@example([(_CALL % (3, b"abc"), 1, 0), (_CALL % (101, b"x" * 101), 1, 0)])
@example([(_CALL % (3, b"abc"), 1, 0), (_CALL.replace(b"filter", b"preempt") % (3, b"abc"), 1, 0)])
@example([(_call(), 1, 0), (_call().replace(b"/filter", b"/binder"), 1, 0)])
@example([(_CALL % (3, b"abc"), 1, 0), (_CALL.replace(b"\r\n\r\n", b"\r\nA: b\r\n\r\n") % (9, b"abc"), 1, 0)])
def test_recognizing_heads_changes_nothing(arrivals: list[tuple[bytes, int, int]]) -> None:
    with_it, without = _Connection(), _Connection()
    for data, times, cut in arrivals:
        for part in (data[:cut], data[cut:]) * times:
            if part:
                with_it.takes(part)
                without.protocol._heads = RepeatedHeads()
                without.takes(part)
    assert with_it.outcome() == without.outcome()
    with_it.ends()
    without.ends()
