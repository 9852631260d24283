"""The reflector against a server that breaks in every way: nothing lost, nothing doubled, nothing out of order."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from slackwater.adapters.api_calls import Response
from slackwater.adapters.kube import errors
from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import NODES_PATH, nodes
from slackwater.model.events import NodeGone, NodeSeen
from slackwater.model.ids import NodeName
from tests.support.fakeapi import FakeApi, Reply, status
from tests.support.feedreader import EventSourceReader

pytestmark = pytest.mark.anyio

FAST = ReflectorConfig(page_size=3, first_backoff_seconds=0.001, longest_backoff_seconds=0.01, absent_seconds=0.02)


class Story:
    """A reflector at work, and what its reader has seen."""

    def __init__(self, api: FakeApi, reflector: Reflector[NodeName]) -> None:
        self.api = api
        self.reflector = reflector
        self.reader = EventSourceReader()
        self.broken: list[tuple[str, str]] = []

    def truth(self) -> dict[str, tuple[str, int]]:
        """What the server has."""
        metas = [node["metadata"] for node in self.api.objects[NODES_PATH].values()]
        return {meta["name"]: (meta["uid"], int(meta["resourceVersion"])) for meta in metas}

    async def caught_up(self) -> None:
        await self.reader.until(lambda: self.reader.lists > 0 and self.reader.state == self.truth())
        assert not self.reader.complaints

    async def listed(self, times: int) -> None:
        await self.reader.until(lambda: self.reader.lists >= times)
        assert not self.reader.complaints

    async def watching(self) -> None:
        await self.asked(lambda: any(asked.watch for asked in self.api.asked))

    async def asked(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - no event tells of it
                await anyio.sleep(0.001)

    def watched_from(self) -> list[str]:
        return [asked.query["resourceVersion"] for asked in self.api.asked if asked.watch]


@asynccontextmanager
async def reflecting(
    api: FakeApi, client: KubeClient, config: ReflectorConfig = FAST, *, may_be_absent: bool = False
) -> AsyncIterator[Story]:
    broken: list[tuple[str, str]] = []
    resource = replace(nodes(lambda kind, name, _error: broken.append((kind, name))), may_be_absent=may_be_absent)
    story = Story(api, Reflector(client, resource, rng=Random(1), config=config))
    story.broken = broken
    async with anyio.create_task_group() as group:
        group.start_soon(story.reader.run, story.reflector)
        yield story
        group.cancel_scope.cancel()


async def test_the_first_list_comes_page_by_page_and_ends_with_a_listed_batch(api: FakeApi, client: KubeClient) -> None:
    for number in range(7):
        api.put(NODES_PATH, f"n{number}")
    async with reflecting(api, client) as story:
        await story.listed(1)
        assert [len(batch.events) for batch in story.reader.batches] == [3, 3, 1, 0]
        assert [batch.listed for batch in story.reader.batches] == [False, False, False, True]
        assert api.asked[0].query == {"limit": "3"}, "the first page names no version: the newest is wanted"
        assert story.reader.state == story.truth()


async def test_pages_of_large_objects_are_asked_for_a_few_objects_at_a_time(api: FakeApi, client: KubeClient) -> None:
    for number in range(9):
        large = {"annotations": {"large": "x" * 6_000_000}}
        api.put(NODES_PATH, f"n{number}", metadata=large if number in {3, 4, 5} else {})
    async with reflecting(api, client, replace(FAST, page_size=9)) as story:
        await story.listed(1)
        assert story.reader.state == story.truth()
        limits = [int(asked.query["limit"]) for asked in api.asked if not asked.watch]
        assert limits[:2] == [9, 1], "nine of them are more than a page may have"
        assert max(limits[1:]) > 1


async def test_each_change_is_given_out_once_and_in_order(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.listed(1)
        api.put(NODES_PATH, "b")
        for _ in range(20):
            api.put(NODES_PATH, "a")
        api.delete(NODES_PATH, "b")
        await story.caught_up()
        versions = [event.node.resource_version for event in story.reader.events if isinstance(event, NodeSeen)]
        assert versions == list(range(1001, 1023))
        assert story.reader.events[-1] == NodeGone(NodeName("b"))
        assert story.reflector.breaks == {}


async def test_a_connection_cut_after_any_byte_loses_nothing(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        for length in range(200):  # two lines have fewer bytes
            api.wire.budget = length
            api.put(NODES_PATH, "a")
            api.put(NODES_PATH, f"n{length}")
            await story.caught_up()
        api.drop()
        api.delete(NODES_PATH, "n7")
        await story.caught_up()
        versions = [event.node.resource_version for event in story.reader.events if isinstance(event, NodeSeen)]
        assert versions == list(range(1001, 1402)), "every version of every object once"
        assert story.reader.lists == 1, "no break cost a list"
        assert story.reflector.breaks["dropped"] > 100


async def test_lines_may_arrive_byte_by_byte(api: FakeApi, client: KubeClient) -> None:
    api.wire.cut = lambda data: [data[i : i + 1] for i in range(len(data))]
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.listed(1)
        for number in range(5):
            api.put(NODES_PATH, f"n{number}")
        await story.caught_up()


async def test_lines_that_arrive_together_form_one_batch(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        node = '{"type":"MODIFIED","object":{"metadata":{"name":"a","uid":"uid-1","resourceVersion":"%d"}}}\n'
        api.send("".join(node % version for version in range(2000, 2060)).encode())
        await story.reader.until(lambda: story.reader.state["a"] == ("uid-1", 2059))
        assert len(story.reader.batches[-1].events) == 60


@pytest.mark.parametrize("form", ["status", "event"])
async def test_after_410_a_new_list_gives_out_only_the_difference(api: FakeApi, client: KubeClient, form: str) -> None:
    api.expired_as = "status" if form == "status" else "event"
    for name in ("kept", "changed", "deleted", "replaced"):
        api.put(NODES_PATH, name)
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        before = len(story.reader.events)
        await api.stop()
        api.put(NODES_PATH, "changed")
        api.delete(NODES_PATH, "deleted")
        api.delete(NODES_PATH, "replaced")
        api.put(NODES_PATH, "replaced")
        api.put(NODES_PATH, "new")
        api.compact()
        await api.start()
        await story.listed(2)
        news = [event.node.name if isinstance(event, NodeSeen) else event for event in story.reader.events[before:]]
        assert news == ["changed", NodeGone(NodeName("replaced")), "replaced", "new", NodeGone(NodeName("deleted"))]
        assert story.reader.state == story.truth()
        assert story.reflector.breaks["expired"] == 1


@pytest.mark.parametrize("code", [410, 400, 404])
async def test_a_list_whose_token_the_server_refuses_begins_again(api: FakeApi, client: KubeClient, code: int) -> None:
    for number in range(9):
        api.put(NODES_PATH, f"n{number}")
    api.reply("GET", NODES_PATH, _page(api, 0, 3, "next"), Reply(status=code, body=status(code, "Odd")))
    api.delete(NODES_PATH, "n1")
    async with reflecting(api, client) as story:
        await story.caught_up()
        assert story.reader.lists == 1
        assert story.reflector.lists == 2
        assert NodeGone(NodeName("n1")) in story.reader.events, "the first page had shown it"


async def test_a_page_that_fails_is_asked_for_again_and_no_other(api: FakeApi, client: KubeClient) -> None:
    for number in range(7):
        api.put(NODES_PATH, f"n{number}")
    api.reply("GET", NODES_PATH, Reply(status=503), Reply(status=500, body=b"<html>"), _page(api, 0, 3, "1/3"))
    api.reply("GET", NODES_PATH, Reply(status=429, headers={"Retry-After": "0"}), Reply(drop=True), _page(api, 3, 7, ""))
    async with reflecting(api, client) as story:
        await story.caught_up()
        tokens = [asked.query.get("continue") for asked in api.asked if not asked.watch]
        assert tokens[:3] == [None, None, None]
        assert set(tokens[3:]) == {"1/3"}
        assert story.reflector.lists == 1


def _page(api: FakeApi, first: int, end: int, token: str) -> Reply:
    items = list(api.objects[NODES_PATH].values())[first:end]
    return Reply(body={"metadata": {"resourceVersion": str(api.revision), "continue": token}, "items": items})


async def test_bookmarks_advance_where_a_watch_goes_on_from(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        api.revision = 5000  # other resources changed
        api.bookmark()
        await story.asked(lambda: story.reflector.version == "5000")
        api.compact()
        api.drop()
        api.put(NODES_PATH, "b")
        await story.caught_up()
        assert story.watched_from() == ["1001", "5000"]
        assert story.reader.lists == 1


async def test_a_server_that_falls_silent_is_left(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    api.wire.silent = True
    config = replace(FAST, watch_seconds=(1.0, 1.0), grace_seconds=0.1)
    async with reflecting(api, client, config) as story:
        await story.listed(1)
        await story.watching()
        api.put(NODES_PATH, "b")
        await story.asked(lambda: story.reflector.breaks.get("silent") == 1)
        api.wire.silent = False
        await story.caught_up()
        assert not story.reader.complaints


async def test_a_watch_that_ends_in_good_order_goes_on_without_a_list(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client, replace(FAST, watch_seconds=(1.0, 1.0), grace_seconds=60.0)) as story:
        await story.caught_up()
        await story.asked(lambda: story.reflector.watches >= 2)
        api.put(NODES_PATH, "b")
        await story.caught_up()
        assert set(story.reflector.breaks) == {"ended"}
        assert story.reader.lists == 1


async def test_history_that_went_back_is_listed_again_and_given_out_although_older(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        newer = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","uid":"uid-1","resourceVersion":"9000"}}}\n'
        api.send(newer)
        await story.reader.until(lambda: story.reader.state["a"] == ("uid-1", 9000))
        api.bookmark()  # of revision 1001: as after a restore from a backup
        await story.reader.until(lambda: story.reader.lists == 2)
        assert story.reader.state == story.truth()
        assert story.reader.events[-2:] == [NodeGone(NodeName("a")), story.reader.events[0]]
        assert story.reflector.breaks["went_back"] == 1


async def test_a_type_that_may_be_absent_counts_as_empty_and_is_looked_for_again(api: FakeApi, client: KubeClient) -> None:
    async with reflecting(api, client, may_be_absent=True) as story:
        await story.listed(1)
        assert story.reader.state == {}
        api.put(NODES_PATH, "a")
        await story.caught_up()
        del api.objects[NODES_PATH]
        api.drop()
        await story.reader.until(lambda: story.reader.state == {})
        assert not story.reader.complaints
        assert story.reader.events[-1] == NodeGone(NodeName("a"))


async def test_a_404_for_a_type_that_is_always_there_ends_nothing(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        lost = Reply(status=404, body=b"404 page not found")
        api.reply("watch", NODES_PATH, lost)
        api.reply("GET", NODES_PATH, lost, lost)
        api.drop()
        await story.listed(2)
        assert story.reflector.breaks["absent"] == 3
        assert len(story.reader.events) == 1, "what was known stood all the while"


async def test_a_server_that_is_behind_our_version_is_asked_again_and_in_the_end_for_a_list(
    api: FakeApi, client: KubeClient
) -> None:
    api.put(NODES_PATH, "a")
    behind = Reply(status=504, body=status(504, "Timeout", "Too large resource version: 1001, current: 900"))
    api.reply("watch", NODES_PATH, behind, behind)
    async with reflecting(api, client) as story:
        await story.caught_up()
        api.put(NODES_PATH, "b")
        await story.caught_up()
        assert story.reader.lists == 1
        assert story.reflector.breaks["ahead"] == 2
        api.reply("watch", NODES_PATH, *[behind] * 5)
        api.drop()
        await story.listed(2)
        assert story.reflector.breaks["ahead"] == 7


@pytest.mark.parametrize(
    "line",
    [b'{"type":"ADDED","obj\n', b"<html>\n", b'{"type":"SHOUTED","object":{}}\n', b'{"type":"BOOKMARK","object":7}\n'],
    ids=["cut short", "no JSON", "unknown type", "odd bookmark"],
)
async def test_a_line_that_is_no_watch_event_costs_a_list_and_nothing_else(
    api: FakeApi, client: KubeClient, line: bytes
) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        known = b'{"type":"ADDED","object":{"metadata":{"name":"b","uid":"x","resourceVersion":"1002"}}}\n'
        api.send(known + line)
        await story.listed(2)
        assert story.reader.events[1:] == [story.reader.events[1], NodeGone(NodeName("b"))], "the line before it was read"
        assert story.reflector.breaks["garbled"] == 1


async def test_a_restarted_server_is_found_again_from_the_same_version(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    async with reflecting(api, client) as story:
        for name in ("b", "c"):
            await story.caught_up()
            await story.watching()
            before = story.reflector.breaks.get("unreachable", 0)
            await api.stop()
            await story.asked(lambda before=before: story.reflector.breaks.get("unreachable", 0) > before)  # type: ignore[misc]
            assert not story.reflector.alive
            api.put(NODES_PATH, name)
            await api.start()
            await story.caught_up()
            assert story.reflector.alive
        assert story.reader.lists == 1


async def test_a_server_that_is_not_there_yet_is_waited_for(api: FakeApi, client: KubeClient) -> None:
    await api.stop()
    async with reflecting(api, client) as story:
        await story.asked(lambda: story.reflector.breaks.get("unreachable", 0) > 2)
        assert not story.reader.batches
        api.put(NODES_PATH, "a")
        await api.start()
        await story.caught_up()


async def test_the_server_says_how_long_to_stay_away(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    api.reply("watch", NODES_PATH, Reply(status=429, body=status(429, "TooManyRequests"), headers={"Retry-After": "1"}))
    async with reflecting(api, client) as story:
        await story.listed(1)
        asked_at = anyio.current_time()
        await story.asked(lambda: story.reflector.watches == 2)
        assert anyio.current_time() - asked_at > 0.9


@pytest.mark.parametrize("asked", ["3600", "9" * 5000])
async def test_a_reflector_pauses_for_half_a_minute_at_most(
    api: FakeApi, client: KubeClient, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "LONGEST_WAIT_SECONDS", 0.3)
    assert errors.refused("watch", Response(429, headers={"Retry-After": asked})).after_seconds == 0.3
    api.put(NODES_PATH, "a")
    api.reply("watch", NODES_PATH, Reply(status=429, body=status(429, "TooManyRequests"), headers={"Retry-After": asked}))
    async with reflecting(api, client) as story:
        await story.listed(1)
        with anyio.fail_after(60):
            await story.asked(lambda: story.reflector.watches == 2)


async def test_waits_between_attempts_grow_and_are_short_again_after_a_success(
    api: FakeApi, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.adapters.kube.reflector._log", structlog.get_logger())  # other tests configure the old one
    api.put(NODES_PATH, "a")
    refused = Reply(status=403, body=status(403, "Forbidden", "nodes is forbidden"))
    api.reply("GET", NODES_PATH, *[refused] * 4)
    with capture_logs() as lines:
        async with reflecting(api, client, replace(FAST, first_backoff_seconds=0.01, longest_backoff_seconds=1.0)) as story:
            await story.caught_up()
            assert story.reflector.breaks == {"refused": 4}
            api.put(NODES_PATH, "b")
            await story.caught_up()
            api.drop()
            await story.asked(lambda: sum(story.reflector.breaks.values()) == 5)
            await story.asked(lambda: story.reflector.alive)
    waits = [line["again_in_seconds"] for line in lines if line["event"] == "feed broke off"]
    longest = [0.01, 0.02, 0.04, 0.08, 0.01]
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True)), waits
    for (earlier, later), wait in zip(pairwise(api.asked_at[:5]), waits[:4], strict=True):
        assert later - earlier >= wait - 0.001, "no attempt is early"


async def test_the_selector_goes_with_every_request(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "a")
    resource = replace(nodes(lambda *_: None), field_selector="spec.unschedulable=false")
    reader = EventSourceReader()
    async with anyio.create_task_group() as group:
        group.start_soon(reader.run, Reflector(client, resource, rng=Random(1), config=FAST))
        await reader.until(lambda: reader.lists == 1)
        await api.was_asked(2)
        group.cancel_scope.cancel()
    for asked in api.asked:
        assert asked.query["fieldSelector"] == "spec.unschedulable=false"
