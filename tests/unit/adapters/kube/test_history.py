"""The history's ConfigMaps: what is written is read again, and nothing that somebody puts there stops the service."""

import json
from random import Random

import pytest
from msgspec import structs
from msgspec.structs import replace

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.config_maps import packed
from slackwater.adapters.kube.errors import StatusError
from slackwater.adapters.kube.history import ConfigMapHistory, config_map_names
from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import History, chunk_of
from slackwater.model.history import HistoryAction, HistoryEntry
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

ALL = "/api/v1/namespaces/kube-system/configmaps"
ABSENT = Reply(status=404, body=status(404, "NotFound", "no"))
ENTRY = HistoryEntry(at_ms=1, action=HistoryAction.EVICTED, pod="shop/a", uid="12345678", node="n1", why="not needed")
#: etcd refuses a ConfigMap of more than 1 MiB.
MOST_BYTES = 1 << 20


def in_slots(api: FakeApi, **texts: str) -> None:
    """What each ConfigMap has; those that are not named do not exist."""
    for name in config_map_names():
        text = texts.get(name.removeprefix("slackwater-history-").replace("-", "_"))
        reply = ABSENT if text is None else Reply(body={"metadata": {"resourceVersion": "7"}, "data": {"history": text}})
        api.reply("GET", f"{ALL}/{name}", reply)


@pytest.fixture
def store(client: KubeClient) -> ConfigMapHistory:
    return ConfigMapHistory(client, namespace="kube-system")


async def test_what_is_written_is_read_again(api: FakeApi, store: ConfigMapHistory) -> None:
    path = f"{ALL}/slackwater-history-acts-3"
    api.reply("GET", path, ABSENT)
    api.reply("POST", ALL, Reply(status=201, body={"metadata": {"resourceVersion": "1"}}))
    chunk = chunk_of("acts", 11, [ENTRY, replace(ENTRY, pod="shop/b")])
    assert await store.write(chunk) is not None
    made = json.loads(api.asked[-1].body)
    assert made["metadata"]["name"] == "slackwater-history-acts-3"
    in_slots(api, acts_3=made["data"]["history"])
    assert await store.load() == [chunk]


@pytest.mark.parametrize(
    "text",
    [
        "no base64!",
        packed([1, 2]),
        packed({"format": 1, "ring": "acts", "number": 1}),
        packed({"format": 2, "ring": "acts", "number": 1, "entries": []}),
        packed({"format": 1, "ring": "acts", "number": 2, "entries": []}),
        packed({"format": 1, "ring": "waits", "number": 1, "entries": []}),
        packed({"format": 1, "ring": "acts", "number": 1 + 2**60, "entries": []}),
        packed({"format": 1, "ring": "acts", "number": -7, "entries": []}),
        packed({"format": 1, "ring": "acts", "number": 1, "entries": [], "more": "x" * 2**21}),
        "\u00e9t\u00e9",
    ],
)
async def test_a_config_map_that_others_have_changed_is_left_out(api: FakeApi, store: ConfigMapHistory, text: str) -> None:
    good = packed({"format": 1, "ring": "waits", "number": 0, "entries": []})
    in_slots(api, acts_1=text, waits_0=good)
    assert await store.read() == [chunk_of("waits", 0, [])]


@pytest.mark.parametrize(
    "entry", [["now", "evicted"], [1, "flown away", *[""] * 6], 7, None, [2**60, "evicted", *[""] * 6], [1, "evicted", 5]]
)
async def test_an_entry_that_only_another_version_can_read_costs_no_other(
    api: FakeApi, store: ConfigMapHistory, entry: object
) -> None:
    longer = [*structs.astuple(replace(ENTRY, pod="shop/b")), "a field of tomorrow"]
    stored = {"format": 1, "ring": "acts", "number": 1, "entries": [ENTRY, entry, longer], "more": "of tomorrow"}
    in_slots(api, acts_1=packed(stored))
    assert await store.read() == [chunk_of("acts", 1, [ENTRY, replace(ENTRY, pod="shop/b")])]


async def test_without_the_right_nothing_is_read(api: FakeApi, store: ConfigMapHistory) -> None:
    forbidden = Reply(status=403, body=status(403, "Forbidden", "may not"))
    for name in config_map_names():
        api.reply("GET", f"{ALL}/{name}", forbidden, forbidden)
    assert await store.read() is None
    with pytest.raises(StatusError, match="may not"):
        await store.load()


def test_the_fullest_chunk_of_texts_that_cannot_be_compressed_fits_into_a_config_map() -> None:
    rng, history = Random(7), History(HistoryPolicy())
    for number in range(3000):
        why = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(150))
        history.add(replace(ENTRY, at_ms=number, pod=f"shop/{rng.getrandbits(200):x}", why=why))
    chunks = history.unwritten()
    assert len(chunks) > 1
    assert max(len(packed(chunk.entries)) for chunk in chunks) < MOST_BYTES / 2
