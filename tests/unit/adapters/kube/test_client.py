"""Requests and streams: what goes over the wire, and what a failure says about what may have happened."""

import gzip
import json
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from slackwater.adapters.api_calls import Read, Write
from slackwater.adapters.kube.client import KubeClient, LedApi, open_client, open_reader
from slackwater.adapters.kube.errors import KubeError, NoAnswer, NotLeading, StatusError, Unreachable
from tests.support.fakeapi import FakeApi, Reply, status, write_kubeconfig

pytestmark = pytest.mark.anyio

WATCH = {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "60"}


async def failure(client: KubeClient, *, seconds: float = 60.0) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await client.send(Write("POST", "/things", body=b"{}", timeout_seconds=seconds))
    return caught.value


async def test_a_request_goes_out_as_it_was_asked_for(api: FakeApi, client: KubeClient) -> None:
    api.reply("PATCH", "/things/a b", Reply(status=202, body=b"made", headers={"X-Kept": "yes"}))
    call = Write(
        "PATCH",
        "/things/a%20b",
        params={"fieldManager": "us & them"},
        body=b'{"x":1}',
        content_type="application/merge-patch+json",
        timeout_seconds=60,
    )
    answer = await client.send(call)
    assert (answer.status, answer.body, answer.headers["x-kept"]) == (202, b"made", "yes")
    [asked] = api.asked
    assert (asked.path, asked.query, asked.body) == ("/things/a b", {"fieldManager": "us & them"}, b'{"x":1}')
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    assert asked.headers["Accept"] == "application/json"
    assert asked.headers["Accept-Encoding"] == "identity"
    assert asked.headers["User-Agent"].startswith("slackwater/")


async def test_a_body_that_is_compressed_all_the_same_is_decoded(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", "/things", Reply(body=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"}))
    assert (await client.send(Read("/things", timeout_seconds=60))).body == b"plain"


async def test_a_redirect_is_not_followed_with_our_credentials(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", "/things", Reply(status=307, headers={"Location": "http://127.0.0.1:1/"}))
    assert (await client.send(Read("/things", timeout_seconds=60))).status == 307


async def test_without_a_server_nothing_was_sent(api: FakeApi, client: KubeClient) -> None:
    await api.stop()
    error = await failure(client)
    assert isinstance(error, Unreachable)
    assert f"POST /things: {api.url} cannot be reached" in str(error)


async def test_a_connection_cut_before_the_answer_has_an_unknown_outcome(api: FakeApi, client: KubeClient) -> None:
    api.reply("POST", "/things", Reply(drop=True))
    error = await failure(client)
    assert isinstance(error, NoAnswer)
    assert not error.timed_out
    assert len(api.asked) == 1, "what may have happened is not sent again"


async def test_an_answer_that_does_not_come_in_time_has_an_unknown_outcome(api: FakeApi, client: KubeClient) -> None:
    await client.send(Read("/things", timeout_seconds=60))  # so that there is a connection, which is used again
    api.reply("POST", "/things", Reply(hang=True))
    error = await failure(client, seconds=0.05)
    assert isinstance(error, NoAnswer)
    assert error.timed_out


async def test_waiting_in_vain_for_a_connection_of_the_pool_has_sent_nothing(api: FakeApi, tmp_path: Path) -> None:
    api.reply("GET", "/slow", Reply(hang=True))
    async with open_client(kubeconfig=write_kubeconfig(tmp_path / "config", api.url), max_calls=1) as client:

        async def hang() -> None:
            await client.send(Read("/slow", timeout_seconds=60))

        async with anyio.create_task_group() as group:
            group.start_soon(hang)
            await api.was_asked(1)
            assert isinstance(await failure(client, seconds=0.05), Unreachable)
            group.cancel_scope.cancel()
        assert len(api.asked) == 1


async def test_watches_never_take_a_connection_from_a_call(api: FakeApi, tmp_path: Path) -> None:
    api.put("/things", "a")
    config = write_kubeconfig(tmp_path / "config", api.url)
    async with open_client(kubeconfig=config, max_calls=1, max_event_sources=3) as client:

        async def watch() -> None:
            async for _ in client.stream("/things", params=WATCH, silence_seconds=60):
                pass

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(watch)
            await api.was_asked(3)
            assert (await client.send(Read("/things", timeout_seconds=60))).status == 200
            group.cancel_scope.cancel()


async def test_a_stream_begins_with_an_empty_list_once_the_server_has_said_yes(api: FakeApi, client: KubeClient) -> None:
    api.put("/things", "a")
    params = {**WATCH, "timeoutSeconds": "0.01"}
    got = [lines async for lines in client.stream("/things", params=params, silence_seconds=60)]
    assert got == [[], [b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"uid-1","resourceVersion":"1001"}}}']]


async def test_a_line_of_many_megabytes_arrives_whole(api: FakeApi, client: KubeClient) -> None:
    made = api.put("/things", "a", blob="x" * 5_000_000)
    lines: list[bytes] = []
    async with aclosing(client.stream("/things", params=WATCH, silence_seconds=60)) as stream:
        while not lines:
            lines = await anext(stream)
    assert lines == [b'{"type":"ADDED","object":' + json.dumps(made, separators=(",", ":")).encode() + b"}"]


async def test_a_refused_stream_says_why(api: FakeApi, client: KubeClient) -> None:
    body = status(429, "TooManyRequests", "too many requests, please try again later")
    api.reply("watch", "/things", Reply(status=429, body=body, headers={"Retry-After": "7"}))
    with pytest.raises(StatusError) as caught:
        [lines async for lines in client.stream("/things", params=WATCH, silence_seconds=60)]
    assert (caught.value.code, caught.value.reason, caught.value.after_seconds) == (429, "TooManyRequests", 7.0)
    assert str(caught.value) == "watch /things: 429 TooManyRequests: too many requests, please try again later"


async def test_an_answer_that_is_no_status_is_quoted_in_part(api: FakeApi, client: KubeClient) -> None:
    api.reply("watch", "/things", Reply(status=502, body=b"<html>" + b"x" * 9_000))
    with pytest.raises(StatusError) as caught:
        [lines async for lines in client.stream("/things", params=WATCH, silence_seconds=60)]
    assert caught.value.message == "<html>" + "x" * 490 + " ..."


async def test_a_silent_stream_is_given_up(api: FakeApi, client: KubeClient) -> None:
    api.put("/things", "a")
    api.wire.silent = True
    with pytest.raises(NoAnswer) as caught:
        [lines async for lines in client.stream("/things", params=WATCH, silence_seconds=0.05)]
    assert caught.value.timed_out


async def test_a_replica_that_does_not_lead_sends_reads_and_token_reviews_only(api: FakeApi, client: KubeClient) -> None:
    leads = False
    led = LedApi(client, lambda: leads)
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    for call in (Read("/things", timeout_seconds=60), Write("POST", reviews, timeout_seconds=60)):
        api.reply(call.method, call.path, Reply())
        await led.send(call)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(NotLeading):
            await led.send(Write(method, "/things", body=b"{}", timeout_seconds=60))
    assert [(one.method, one.path) for one in api.asked] == [("GET", "/things"), ("POST", reviews)]

    leads = True
    api.reply("POST", "/things", Reply(status=201))
    assert (await led.send(Write("POST", "/things", body=b"{}", timeout_seconds=60))).status == 201


async def test_a_reader_sends_reads_and_has_no_way_to_write(api: FakeApi, tmp_path: Path) -> None:
    async with open_reader(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", api.url)) as reader:
        await reader.send(Read("/things", timeout_seconds=60))
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(TypeError, match="only reads"):
                await reader.send(Write(method, "/things", body=b"{}", timeout_seconds=60))  # type: ignore[arg-type]
    assert {one.method for one in api.asked} == {"GET"}
    assert {name for name in dir(reader) if not name.startswith("_")} == {"send", "stream", "url"}
