"""Who is let in to the agents' listener, and for which node."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from slackwater.adapters.http.application import Headers
from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig, ReviewQueue
from slackwater.adapters.http.callers import common_name
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.model.ids import Instant, NodeName
from slackwater.model.permits import Caller, PermitRefusal
from slackwater.ports.protocols import TokenReview
from tests.faults.virtualloop import run_virtually
from tests.support.agents import a_request, an_agent_service
from tests.support.fakeapi import FakeApi, Reply, fake_api, write_kubeconfig
from tests.support.tokens import AGENT, REVIEWS, a_token, not_reviewed, reviewed

pytestmark = pytest.mark.anyio

OURS = frozenset({"kube-system/autoscaler-agent"})
UNIX = 1_800_000_000.0


@dataclass
class Ground:
    """A gate that asks a fake API server; `seconds` is the time of both clocks."""

    api: FakeApi
    reviewer: KubeTokenReviewer
    seconds: float = 0.0

    def gate(self, **config: Any) -> Authenticator:
        settings = AuthenticatorConfig(**{"service_accounts": OURS, "review_seconds": 60.0, **config})
        return Authenticator(
            settings,
            self.reviewer,
            clock=lambda: Instant(self.seconds),
            unix_seconds=lambda: UNIX + self.seconds,
        )


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with fake_api() as api, open_client(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", api.url)) as client:
        yield Ground(api, KubeTokenReviewer(client))


def shown(*, token: str | None = None, peer: str | None = None) -> tuple[Headers, str | None]:
    """What a caller shows of itself, as the gate is told it."""
    return ([] if token is None else [(b"authorization", f"Bearer {token}".encode())]), peer


def refused(found: Caller | PermitRefusal) -> tuple[int, str]:
    assert isinstance(found, PermitRefusal)
    return found.status, found.message


# --- certificates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "name", "want"),
    [("system:node:", "system:node:n1", "n1"), ("", "n1", "n1"), ("agent of ", "agent of n.1", "n.1")],
)
async def test_the_certificates_name_has_the_node(ground: Ground, prefix: str, name: str, want: str) -> None:
    found = await ground.gate(certificate_prefix=prefix).caller(*shown(peer=name))
    assert found == Caller(node=NodeName(want), name=name)
    assert ground.api.asked == []


@pytest.mark.parametrize("name", ["", "system:node:", "system:nodes:n1", "admin", "System:node:n1"])
async def test_a_certificate_of_another_client_is_forbidden(ground: Ground, name: str) -> None:
    found = refused(await ground.gate(certificate_prefix="system:node:").caller(*shown(peer=name)))
    assert found == (403, f"certificate of {name!r} names no node: want CN system:node:<node>")


async def test_a_certificate_counts_for_nothing_where_only_tokens_do(ground: Ground) -> None:
    assert refused(await ground.gate().caller(*shown(peer="system:node:n"))) == (401, "who are you? want a bearer token")


def test_the_last_common_name_is_the_name() -> None:
    subject = ((("commonName", "first"),), (("organizationName", "system:nodes"), ("commonName", "last")))
    assert common_name({"subject": subject}) == "last"
    assert common_name({"subject": ((("organizationName", "x"),),)}) == ""
    assert common_name({}) == ""


# --- tokens -------------------------------------------------------------------------------------------------------------


async def test_a_bound_token_of_the_agents_account_is_accepted_for_its_node(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(node="node-7"))
    assert await ground.gate().caller(*shown(token=a_token())) == Caller(node=NodeName("node-7"), name=AGENT)


async def test_a_token_will_do_where_the_certificate_does_not(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(node="node-7"))
    gate = ground.gate(certificate_prefix="system:node:")
    assert isinstance(await gate.caller(*shown(token=a_token(), peer="admin")), Caller)
    want = "who are you? want a client certificate or a bearer token"
    assert refused(await gate.caller(*shown())) == (401, want)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "Token abc"])
async def test_without_a_bearer_token_every_caller_is_refused(ground: Ground, header: str) -> None:
    found = await ground.gate().caller([(b"authorization", header.encode())], None)
    assert refused(found) == (401, "who are you? want a bearer token")
    assert ground.api.asked == []


async def test_the_word_bearer_is_read_in_any_case(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed())
    assert isinstance(await ground.gate().caller([(b"authorization", b"bEARER  abc ")], None), Caller)


@pytest.mark.parametrize("user", ["admin", "system:serviceaccount:default:autoscaler-agent", "system:node:n", ""])
async def test_tokens_of_other_accounts_are_forbidden(ground: Ground, user: str) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(user=user))
    found = refused(await ground.gate().caller(*shown(token=a_token())))
    assert found == (403, f"{user}: want the ServiceAccount kube-system/autoscaler-agent")


async def test_a_token_that_is_bound_to_no_node_is_forbidden(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(node=None))
    status, text = refused(await ground.gate().caller(*shown(token=a_token())))
    assert status == 403
    assert text.startswith(f"{AGENT}: the token is bound to no node")


@pytest.mark.parametrize("token", ["x" * 16_385, "\xff"])
async def test_what_can_be_no_token_is_refused_without_asking(ground: Ground, token: str) -> None:
    found = await ground.gate().caller([(b"authorization", b"Bearer " + token.encode("latin-1"))], None)
    assert refused(found)[0] == 401
    assert ground.api.asked == []


# --- what is kept -------------------------------------------------------------------------------------------------------


async def test_a_known_token_is_reviewed_once_in_its_time(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(), reviewed(), not_reviewed())
    gate = ground.gate(keep_seconds=60)
    for ground.seconds, want_reviews in ((0.0, 1), (59.0, 1), (60.0, 2), (119.0, 2)):
        assert isinstance(await gate.caller(*shown(token=a_token())), Caller)
        assert len(ground.api.asked) == want_reviews
    ground.seconds = 121.0
    assert refused(await gate.caller(*shown(token=a_token()))) == (401, "bearer token: invalid bearer token")


async def test_nothing_is_kept_beyond_the_tokens_own_end(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(), not_reviewed())
    gate, token = ground.gate(keep_seconds=60), a_token(exp=UNIX + 30)
    ground.seconds = 29.0
    assert isinstance(await gate.caller(*shown(token=token)), Caller)
    ground.seconds = 30.5
    assert refused(await gate.caller(*shown(token=token)))[0] == 401


async def test_an_unknown_token_is_asked_about_again_soon(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, not_reviewed(), reviewed())
    gate = ground.gate(refuse_seconds=5)
    for ground.seconds, want in ((0.0, 401), (4.9, 401)):
        assert refused(await gate.caller(*shown(token=a_token())))[0] == want
    ground.seconds = 5.0
    assert isinstance(await gate.caller(*shown(token=a_token())), Caller)


async def test_a_silent_api_server_is_no_refusal_of_the_token(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, Reply(status=500), reviewed())
    gate = ground.gate()
    status, text = refused(await gate.caller(*shown(token=a_token())))
    assert (status, text[:38]) == (503, "bearer token: could not be reviewed: T")
    ground.seconds = 1.0
    assert isinstance(await gate.caller(*shown(token=a_token())), Caller)


async def test_a_review_that_hangs_is_given_up(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, Reply(hang=True))
    with anyio.fail_after(60):
        assert refused(await ground.gate(review_seconds=0.05).caller(*shown(token=a_token())))[0] == 503


async def test_many_requests_with_one_token_make_one_review(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed())
    gate, found = ground.gate(), []

    async def ask() -> None:
        found.append(await gate.caller(*shown(token=a_token())))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
    assert found == [Caller(node=NodeName("n"), name=AGENT)] * 20
    assert len(ground.api.asked) == 1


async def test_a_caller_that_goes_away_leaves_the_others_their_review(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, Reply(hang=True), reviewed())
    gate, found = ground.gate(), []

    async def ask() -> None:
        found.append(await gate.caller(*shown(token=a_token())))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            first = anyio.CancelScope()

            async def leaves() -> None:
                with first:
                    await gate.caller(*shown(token=a_token()))

            group.start_soon(leaves)
            await ground.api.was_asked(1)
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
    assert [type(answer) for answer in found] == [Caller]


async def test_the_tokens_kept_are_bounded_and_the_longest_unused_goes_first(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, *(reviewed() for _ in range(4)))
    gate = ground.gate(max_tokens=2)
    for note, want_reviews in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("b", 4)):
        await gate.caller(*shown(token=a_token(note=note)))
        assert len(ground.api.asked) == want_reviews


@pytest.mark.parametrize("token", ["opaque", "a.b", "a.!!!.c", "e30.e30.x", "a.bm8.c"])
async def test_a_token_without_an_expiry_is_kept_like_any(ground: Ground, token: str) -> None:
    ground.api.reply("POST", REVIEWS, reviewed())
    gate = ground.gate()
    for _ in range(2):
        assert isinstance(await gate.caller(*shown(token=token)), Caller)


# --- with the listener --------------------------------------------------------------------------------------------------


async def test_an_agent_speaks_for_pods_of_its_own_node_only(ground: Ground) -> None:
    ground.api.reply("POST", REVIEWS, reviewed(node="n"), reviewed(node="other"))
    async with an_agent_service(authenticator=ground.gate()) as service:
        own = await service.post(a_request(), authorization=f"Bearer {a_token(note='own')}")
        assert own.status_code == 200
        foreign = await service.post(a_request(), authorization=f"Bearer {a_token(note='foreign')}")
        want = f"{AGENT} of node other may not speak for pod default/vm of node n"
        assert (foreign.status_code, foreign.text) == (403, want)
        nobody = await service.post(a_request())
        assert (nobody.status_code, nobody.text) == (401, "who are you? want a bearer token")
        assert nobody.headers["www-authenticate"] == "Bearer"
        assert len(service.permit_service.asked) == 2


# --- many callers that nobody knows -------------------------------------------------------------------------------------


@dataclass
class SlowReviewer:
    """Accepts the tokens of `good`, after `seconds`."""

    good: frozenset[str]
    seconds: float = 0.06

    async def review(self, token: str, *, timeout_seconds: float) -> TokenReview:
        await anyio.sleep(self.seconds)
        if token in self.good:
            return TokenReview(verdict="known", user="system:serviceaccount:kube-system:autoscaler-agent", node="n1")
        return TokenReview(verdict="unknown", detail="not authenticated")


@pytest.mark.parametrize(
    ("addresses", "renewed", "longest"),
    [(1, False, 0.2), (100, False, 0.8), (100, True, 0.2)],
    ids=["one address", "many addresses", "many addresses, and an agent that was accepted before"],
)
def test_random_tokens_hardly_delay_a_real_agent(addresses: int, renewed: bool, longest: float) -> None:
    """1,000 random tokens at a time, 60 ms a review: an agent's review waited 3.8 s when all shared one queue."""

    async def main() -> None:
        authenticator = Authenticator(
            AuthenticatorConfig(service_accounts=OURS, keep_seconds=1.0),
            SlowReviewer(frozenset({"agent"})),
            clock=lambda: Instant(anyio.current_time()),
            unix_seconds=lambda: UNIX + anyio.current_time(),
        )
        if renewed:
            await authenticator.caller(*shown(token="agent"), "10.0.1.1")
            await anyio.sleep(2)
        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(authenticator.caller, *shown(token=f"random-{number}"), f"10.0.0.{number % addresses}")
            await anyio.sleep(0.01)
            began = anyio.current_time()
            found = await authenticator.caller(*shown(token="agent"), "10.0.1.1")
            assert isinstance(found, Caller)
            assert anyio.current_time() - began <= longest

    run_virtually(Random(1), main)


def test_a_caller_that_gives_up_leaves_no_place_taken() -> None:
    async def main() -> None:
        queue = ReviewQueue(1)

        async def hold(seconds: float) -> None:
            async with queue.place("a", known=False):
                await anyio.sleep(seconds)

        for give_up_at in (0.5, 1.0):  # while it waits, and at the moment at which it gets its turn
            async with anyio.create_task_group() as group:
                group.start_soon(hold, 1.0)
                await anyio.lowlevel.checkpoint()
                with anyio.move_on_after(give_up_at):
                    await hold(1.0)
        with anyio.fail_after(1.1):
            await hold(1.0)

    run_virtually(Random(1), main)


def test_no_number_of_refused_tokens_displaces_an_accepted_one() -> None:
    async def main() -> None:
        reviewer = SlowReviewer(frozenset({"agent"}), seconds=0.001)
        authenticator = Authenticator(
            AuthenticatorConfig(service_accounts=OURS, max_tokens=8),
            reviewer,
            clock=lambda: Instant(anyio.current_time()),
            unix_seconds=lambda: UNIX + anyio.current_time(),
        )
        await authenticator.caller(*shown(token="agent"))
        for number in range(20):
            await authenticator.caller(*shown(token=f"random-{number}"))
        assert isinstance(authenticator.at_once(*shown(token="agent")), Caller)

    run_virtually(Random(1), main)
