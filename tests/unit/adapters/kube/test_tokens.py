"""Whose token it is, as a (fake) API server tells it."""

import json

import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.ports.protocols import TokenReview
from tests.support.fakeapi import FakeApi, Reply, status
from tests.support.tokens import AGENT, REVIEWS, not_reviewed, reviewed

pytestmark = pytest.mark.anyio


async def review(client: KubeClient, *audiences: str) -> TokenReview:
    return await KubeTokenReviewer(client, audiences).review("the-token", timeout_seconds=60)


async def test_a_bound_token_has_account_and_node(api: FakeApi, client: KubeClient) -> None:
    api.reply("POST", REVIEWS, reviewed(node="node-7"))
    assert await review(client) == TokenReview(verdict="known", user=AGENT, node="node-7")
    asked = json.loads(api.asked[0].body)
    assert (asked["kind"], asked["spec"]) == ("TokenReview", {"token": "the-token"})


async def test_a_token_without_a_node_is_known_and_bound_to_none(api: FakeApi, client: KubeClient) -> None:
    api.reply("POST", REVIEWS, reviewed(node=None))
    assert await review(client) == TokenReview(verdict="known", user=AGENT, node="")


async def test_what_the_server_does_not_know_is_unknown(api: FakeApi, client: KubeClient) -> None:
    api.reply("POST", REVIEWS, not_reviewed())
    assert await review(client) == TokenReview(verdict="unknown", detail="invalid bearer token")


async def test_the_token_has_to_be_for_one_of_our_audiences(api: FakeApi, client: KubeClient) -> None:
    api.reply("POST", REVIEWS, reviewed(audiences=["other", "slackwater"]), reviewed(audiences=["other"]), reviewed())
    assert (await review(client, "slackwater", "x")).verdict == "known"
    assert json.loads(api.asked[0].body)["spec"]["audiences"] == ["slackwater", "x"]
    assert await review(client, "slackwater") == TokenReview(verdict="unknown", detail="for other, want slackwater")
    assert await review(client, "slackwater") == TokenReview(verdict="unknown", detail="for no audience, want slackwater")


@pytest.mark.parametrize(
    "reply",
    [Reply(status=403, body=status(403, "Forbidden", "may not")), Reply(status=500), Reply(body=b"<html>"), Reply(drop=True)],
    ids=["forbidden", "broken", "garbled", "dropped"],
)
async def test_without_an_answer_there_is_no_verdict(api: FakeApi, client: KubeClient, reply: Reply) -> None:
    api.reply("POST", REVIEWS, reply)
    found = await review(client)
    assert found.verdict == "unasked"
    assert found.detail
    assert "the-token" not in found.detail
