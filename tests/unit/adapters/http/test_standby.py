"""A standby: the scheduler gets an error, agents the leader's answer, and nobody a decision."""

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from slackwater.adapters.http import standby
from slackwater.adapters.http.application import Answer, Application, Headers, Request, RequestTerms
from slackwater.adapters.http.certificates import Certificates, TlsFiles
from slackwater.adapters.http.standby import FORWARDED_BY, AgentForwarder, ForwardLimits, LedAgents, LedExtender, open_forwarder
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct
from tests.support.fakeapi import held
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio

TERMS = RequestTerms(max_body_bytes=4096, headers=frozenset({b"prefer", b"authorization", FORWARDED_BY.encode()}))
ASKED = Request("POST", "/", b'{"protoVersion":7}')


@pytest.fixture(autouse=True)
def leaders_that_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused because the machine stands still for a moment."""
    monkeypatch.setattr(standby, "_CONNECT_SECONDS", 60.0)


@dataclass
class Decider:
    """An application that says what it was asked, or waits for `until` first."""

    terms: RequestTerms = TERMS
    asked: list[Request] = field(default_factory=list)
    status: int = 200
    until: anyio.Event | None = None
    was_asked: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        self.asked.append(request)
        self.was_asked.set()
        return self._now() if self.until is None else self._later(self.until)

    def _now(self) -> Answer:
        return Answer(self.status, b"decided", b"text/plain", ((b"retry-after", b"7"),))

    async def _later(self, until: anyio.Event) -> Answer:
        await until.wait()
        return self._now()

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


@dataclass
class Place:
    """Whether it leads; `hears` makes it lead after one more look."""

    leading: bool = False
    hears: bool = False

    def leads(self) -> bool:
        return self.leading

    async def awaited(self, seconds: float) -> bool:
        assert seconds > 0
        self.leading = self.leading or self.hears
        return self.leading


async def reported(app: Application, request: Request = ASKED) -> Answer:
    found = app.answer(request)
    return found if isinstance(found, Answer) else await found


@asynccontextmanager
async def a_leader(tls: TlsFiles | None = None, *, app: Application | None = None) -> AsyncIterator[tuple[Decider, int]]:
    decider = Decider()
    with listen("agents", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            certificates = None if tls is None else Certificates("agents", tls, unix_seconds=lambda: 0.0)
            await group.start(serve_direct, app or decider, sock, certificates)
            yield decider, sock.getsockname()[1]
            group.cancel_scope.cancel()


@asynccontextmanager
async def a_forwarder(
    port: int, *, tls: TlsFiles | None = None, leader: tuple[str, str] | None = ("pod-a", "127.0.0.1"), most: int = 8
) -> AsyncIterator[AgentForwarder]:
    async def where() -> tuple[str, str] | None:
        return leader

    limits = ForwardLimits(max_requests=most, answer_seconds=60.0)
    async with open_forwarder(where, replica="pod-b", port=port, tls=tls, limits=limits) as forwarder:
        yield forwarder


# --- the scheduler --------------------------------------------------------------------------------------------------------


async def test_the_scheduler_of_a_standby_gets_an_error_and_no_decision() -> None:
    decider = Decider()
    answer = await reported(LedExtender(decider, Place(), holder=lambda: "pod-a_1"))
    assert (answer.status, answer.body) == (503, b"this replica does not lead: the lease names pod-a_1")
    assert decider.asked == []


async def test_a_scheduler_that_knows_of_the_new_leader_first_waits_until_we_do() -> None:
    decider = Decider()
    assert (await reported(LedExtender(decider, Place(hears=True), holder=lambda: ""))).status == 200
    assert len(decider.asked) == 1


# --- agents ---------------------------------------------------------------------------------------------------------------


async def test_what_was_waited_for_is_not_answered_when_another_leads_by_then() -> None:
    decider, place = Decider(until=anyio.Event()), Place(leading=True)
    app = LedAgents(decider, place, holder=lambda: "pod-a_1", forwarder=None)
    found = app.answer(ASKED)
    assert not isinstance(found, Answer)
    place.leading = False
    assert decider.until is not None
    decider.until.set()
    assert (await found).status == 503


async def test_an_agents_request_goes_to_the_leader_as_it_came() -> None:
    headers: Headers = ((b"authorization", b"Bearer t"), (b"prefer", b"wait=2"))
    async with a_leader() as (decider, port), a_forwarder(port) as forwarder:
        app = LedAgents(Decider(), Place(), holder=lambda: "", forwarder=forwarder)
        answer = await reported(app, ASKED._replace(path="/any", headers=headers))
        (asked,) = decider.asked
        assert (asked.method, asked.path, asked.body) == ("POST", "/", ASKED.body)
        assert set(asked.headers) == {*headers, (FORWARDED_BY.encode(), b"pod-b")}
        assert (answer.status, answer.body, answer.media_type) == (200, b"decided", b"text/plain")
        assert answer.headers == ((b"retry-after", b"7"),)
        assert forwarder.counts == {"answered": 1, "unanswered": 0, "refused": 0}


#: Requests that name another host; after the leader's address, "@" makes all that stands before it a user name.
TARGETS = [
    ("CONNECT", "@127.0.0.1:{port}"),
    ("CONNECT", "127.0.0.1:{port}"),
    ("POST", "http://127.0.0.1:{port}/secrets"),
    ("POST", "//127.0.0.1:{port}/secrets"),
    ("POST", "/../@127.0.0.1:{port}/secrets"),
    ("GET", "/"),
    ("PUT", "/metrics"),
]


@pytest.mark.parametrize(("method", "target"), TARGETS)
@pytest.mark.parametrize("token", ["", "authorization: Bearer t\r\n"], ids=["", "with a token"])
async def test_no_request_makes_a_standby_call_any_other_than_the_leader(method: str, target: str, token: str) -> None:
    async with a_leader() as (other, elsewhere), a_leader() as (decider, port), a_forwarder(port) as forwarder:
        standby = LedAgents(Decider(), Place(), holder=lambda: "", forwarder=forwarder)
        async with a_leader(app=standby) as (_, standby_port), await anyio.connect_tcp("127.0.0.1", standby_port) as stream:
            head = f"{method} {target.format(port=elsewhere)} HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n{token}\r\n"
            await stream.send(head.encode())
            with anyio.fail_after(60):
                answer = await stream.receive()
    assert other.asked == []
    assert [(asked.method, asked.path) for asked in decider.asked] == ([("POST", "/")] if method == "POST" else [])
    assert answer.startswith(b"HTTP/1.1 200 " if method == "POST" else b"HTTP/1.1 400 ")


async def test_two_that_take_one_another_for_the_leader_forward_a_request_once() -> None:
    async with a_forwarder(1) as ours:
        back = LedAgents(Decider(), Place(), holder=lambda: "pod-b_1", forwarder=ours)
        async with a_leader(app=back) as (_, port), a_forwarder(port) as forwarder:
            answer = await reported(LedAgents(Decider(), Place(), holder=lambda: "", forwarder=forwarder))
    assert (answer.status, answer.body) == (
        503,
        b"this replica does not lead, and pod-b has forwarded the request already",
    )


async def test_an_agent_that_showed_a_certificate_has_to_ask_the_leader_itself() -> None:
    async with a_leader() as (decider, port), a_forwarder(port) as forwarder:
        answer = await forwarder.forward(ASKED._replace(peer="system:node:n"))
        assert answer.status == 503
        assert b"'system:node:n'" in answer.body
        assert decider.asked == []


async def test_without_a_leader_agents_get_a_retry_after() -> None:
    async with a_forwarder(1, leader=None) as forwarder:
        answer = await forwarder.forward(ASKED)
    assert answer == Answer(
        503, b"this replica does not lead, and nobody is known to", b"text/plain", ((b"retry-after", b"1"),)
    )


async def test_a_leader_that_does_not_listen_is_named() -> None:
    with held() as sock:
        async with a_forwarder(sock.getsockname()[1]) as forwarder:
            answer = await forwarder.forward(ASKED)
    assert answer.status == 503
    assert b"pod-a, which does: " in answer.body
    assert forwarder.counts["unanswered"] == 1


async def test_no_more_are_forwarded_at_once_than_are_allowed() -> None:
    async with a_leader() as (decider, port), a_forwarder(port, most=1) as forwarder:
        decider.until = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(forwarder.forward, ASKED)
            with anyio.fail_after(60):
                await decider.was_asked.wait()
            assert (await forwarder.forward(ASKED)).status == 503
            decider.until.set()


async def test_over_tls_the_leader_has_to_show_the_certificate_that_the_standby_has(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.write()
    tls = TlsFiles(cert_file=pki.tls().cert_file, key_file=pki.tls().key_file, client_ca_file=None)
    async with a_leader(tls) as (decider, port), a_forwarder(port, tls=tls) as forwarder:
        assert (await forwarder.forward(ASKED)).status == 200
        # Another certificate of the same CA: somebody else's.
        pki.write()
        async with a_forwarder(port, tls=tls) as stranger:
            assert (await stranger.forward(ASKED)).status == 503
        assert len(decider.asked) == 1


async def test_a_renewed_certificate_is_read_once_the_leader_shows_it(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.write()
    tls = TlsFiles(cert_file=pki.tls().cert_file, key_file=pki.tls().key_file, client_ca_file=None)
    async with a_forwarder(0, tls=tls) as forwarder:
        pki.write()
        async with a_leader(tls) as (_, port):
            forwarder.port = port
            statuses = [(await forwarder.forward(ASKED)).status for _ in range(2)]
    assert statuses == [503, 200]


async def test_what_agents_see_of_a_refusal_is_text() -> None:
    answer = await reported(LedAgents(Decider(), Place(), holder=lambda: "", forwarder=None))
    assert answer.media_type == b"text/plain"
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)
