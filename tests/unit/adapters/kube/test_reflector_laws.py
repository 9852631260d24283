"""Whatever happens to the objects and to the connection: what a reflector gives out adds up to what the server has."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import NODES_PATH, nodes
from slackwater.model.events import NodeSeen
from tests.support.fakeapi import FakeApi, Reply, fake_api, status, write_kubeconfig
from tests.support.feedreader import EventSourceReader

CONFIG = ReflectorConfig(page_size=2, first_backoff_seconds=0.0005, longest_backoff_seconds=0.002, absent_seconds=0.01)
NAMES = ("a", "b", "c", "d")

Step = tuple[str, Any]


def _steps() -> st.SearchStrategy[list[Step]]:
    name = st.sampled_from(NAMES)
    change = st.one_of(
        st.tuples(st.just("put"), name),
        st.tuples(st.just("delete"), name),
        st.tuples(st.just("replace"), name),
    )
    breakage = st.one_of(
        st.tuples(st.just("cut after"), st.integers(0, 300)),
        st.tuples(st.just("pieces of"), st.integers(1, 120)),
        st.tuples(st.sampled_from(["drop", "restart", "lose history", "bookmark", "pages expire", "watch fails"]), st.none()),
        st.tuples(st.just("list fails"), st.sampled_from([410, 429, 500, 0])),
        st.tuples(st.just("410 as"), st.sampled_from(["status", "event"])),
    )
    turn = st.one_of(st.tuples(st.just("wait"), st.integers(1, 30)), st.tuples(st.just("settle"), st.none()))
    return st.lists(st.one_of(change, change, breakage, turn), max_size=25)


def _truth(api: FakeApi) -> dict[str, tuple[str, int]]:
    metas = [node["metadata"] for node in api.objects[NODES_PATH].values()]
    return {meta["name"]: (meta["uid"], int(meta["resourceVersion"])) for meta in metas}


def _change(api: FakeApi, what: str, name: str) -> None:
    if what in ("delete", "replace") and ("", name) in api.objects[NODES_PATH]:
        api.delete(NODES_PATH, name)
    if what in ("put", "replace"):
        api.put(NODES_PATH, name)


async def _restart(api: FakeApi) -> None:
    await api.stop()
    await anyio.lowlevel.checkpoint()
    await api.start()


def _breakages(api: FakeApi) -> dict[str, Callable[[Any], object]]:
    return {
        "cut after": lambda length: setattr(api.wire, "budget", length),
        "pieces of": lambda size: setattr(api.wire, "cut", partial(_pieces, size)),
        "410 as": lambda form: setattr(api, "expired_as", form),
        "drop": lambda _: api.drop(),
        "lose history": lambda _: api.compact(),
        "bookmark": lambda _: api.bookmark(),
        "pages expire": lambda _: api.reply("GET", NODES_PATH, Reply(status=410, body=status(410, "Expired"))),
        "watch fails": lambda _: api.send(b'{"type":"ERROR","object":{"code":500,"message":"etcd"}}\n'),
        "list fails": lambda code: api.reply("GET", NODES_PATH, Reply(status=code, drop=code == 0)),
    }


def _pieces(size: int, data: bytes) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


async def _play(steps: list[Step], kubeconfig: Path) -> None:
    note(f"{steps}")
    async with fake_api() as api:
        api.put(NODES_PATH, "first")
        breakages = _breakages(api)
        reader = EventSourceReader()
        async with open_client(kubeconfig=write_kubeconfig(kubeconfig, api.url)) as client, anyio.create_task_group() as group:
            reflector = Reflector(client, nodes(lambda *_: None), rng=Random(1), config=CONFIG)
            group.start_soon(reader.run, reflector)
            for what, value in steps:
                if what == "wait":
                    for _ in range(value):
                        await anyio.lowlevel.checkpoint()
                elif what == "settle":
                    await reader.until(lambda: reader.state == _truth(api))
                elif what == "restart":
                    await _restart(api)
                elif what in breakages:
                    breakages[what](value)
                else:
                    _change(api, what, value)
            api.put(NODES_PATH, "last")  # who knows of it has seen all that came before
            await reader.until(lambda: reader.lists > 0 and reader.state == _truth(api))
            group.cancel_scope.cancel()
        assert not reader.complaints
        if reflector.lists == 1:
            _check_that_nothing_was_skipped(api, reader)


def _check_that_nothing_was_skipped(api: FakeApi, reader: EventSourceReader) -> None:
    """With one list, every version that came after it was given out, in order."""
    listed_at = int(next((asked.query["resourceVersion"] for asked in api.asked if asked.watch), api.revision))
    seen = [event.node.resource_version for event in reader.events if isinstance(event, NodeSeen)]
    assert [version for version in seen if version > listed_at] == [v for v in api.written if v > listed_at]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laws") / "kubeconfig"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=_steps())
def test_after_any_changes_and_breaks_the_events_add_up_to_what_the_server_has(steps: list[Step], kubeconfig: Path) -> None:
    anyio.run(_play, steps, kubeconfig)
