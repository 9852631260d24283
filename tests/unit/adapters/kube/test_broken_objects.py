"""An object that cannot be read, in a whole feed: it ends nothing, and what was last read of it stands."""

import json

import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.resource_type import NODES_PATH
from tests.support.fakeapi import FakeApi, Reply
from tests.unit.adapters.kube.test_reflector import reflecting

pytestmark = pytest.mark.anyio


async def test_a_deep_object_hides_no_other_object_of_its_list(api: FakeApi, client: KubeClient) -> None:
    """As deep as the API server stores: one such object made the whole page unreadable, so that nothing was ever listed."""
    api.put(NODES_PATH, "good")
    api.put(NODES_PATH, "deep", status={"unread": "DEEP"})
    whole = json.dumps({"metadata": {"resourceVersion": "7"}, "items": list(api.objects[NODES_PATH].values())})
    api.reply("GET", NODES_PATH, Reply(body=whole.replace('"DEEP"', "[" * 9_900 + "]" * 9_900).encode()))
    async with reflecting(api, client) as story:
        await story.reader.until(lambda: set(story.reader.state) == {"good", "deep"})
    assert story.broken == []
    assert "garbled" not in story.reflector.breaks


async def test_a_broken_object_is_given_out_as_unreadable_and_its_last_state_is_kept(api: FakeApi, client: KubeClient) -> None:
    api.put(NODES_PATH, "good")
    api.put(NODES_PATH, "bad")
    async with reflecting(api, client) as story:
        await story.caught_up()
        await story.watching()
        good_version = story.reader.state["bad"]
        api.put(NODES_PATH, "bad", status={"allocatable": {"cpu": "four"}})
        api.put(NODES_PATH, "good")
        await story.reader.until(lambda: story.reader.state["good"] == story.truth()["good"])
        assert story.broken == [("nodes", "bad")]
        assert story.reader.unreadable == ["bad"]
        await api.stop()
        api.put(NODES_PATH, "good")
        api.compact()
        await api.start()
        await story.listed(2)
        assert story.broken == [("nodes", "bad")] * 2
        assert story.reader.state["bad"] == good_version, "a list must not bury what it shows but we cannot read"
        api.delete(NODES_PATH, "bad")
        await story.caught_up()
        assert story.reflector.broken_objects == 2
