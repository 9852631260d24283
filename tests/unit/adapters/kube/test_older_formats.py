"""What an older version wrote is read, and what a later one may add to it too: the texts of permits, preemptions and machines
on their way, the history. `older_formats.json` was recorded on a real control plane by
`SLACKWATER_TEST_RECORD=1 make cluster TESTS=tests/cluster/test_upgrade.py`, which also runs both versions.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from slackwater.adapters.cloud.kwok import nodes
from slackwater.adapters.cloud.kwok.provider import CONFIG_MAP
from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.history import ConfigMapHistory, config_map_names
from slackwater.model.history import HistoryAction
from slackwater.model.objects import read_preempting
from slackwater.model.permits import read_written
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

OLDER: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("older_formats.json").read_text())
MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
ABSENT: Final = Reply(status=404, body=status(404, "NotFound", "no"))
GIB: Final = 2**30


def grown(text: str) -> str:
    """As a later version might write it."""
    return json.dumps({**json.loads(text), "addedLater": {"by": ["a", 1]}})


@pytest.mark.parametrize("as_written", [str, grown])
def test_permits_keep_their_amounts_their_pod_and_their_age(as_written: Any) -> None:
    plain, machine = (read_written(as_written(text)) for text in OLDER["permits"])
    assert plain is not None
    assert machine is not None
    assert tuple(plain.permit) == tuple(plain.permit_limit) == (2000, 4 * GIB)
    assert tuple(machine.permit) == tuple(machine.permit_limit) == (500, 2 * GIB)
    assert len(plain.pod) == len(machine.pod) == 36
    assert (plain.number, plain.epoch) == (1, 1)


@pytest.mark.parametrize("as_written", [str, grown])
def test_a_preemption_keeps_its_node_and_its_victims(as_written: Any) -> None:
    found = read_preempting(as_written(OLDER["preempting"]))
    assert found is not None
    assert found.node.endswith("-n-000")
    assert len(found.victims) == 1


@pytest.mark.parametrize("as_written", [str, grown])
async def test_a_machine_on_its_way_is_not_requested_again(api: FakeApi, client: KubeClient, as_written: Any) -> None:
    data = {group: as_written(text) for group, text in OLDER["kwok"].items()}
    api.reply("GET", f"{MAPS}/{CONFIG_MAP}", Reply(body={"metadata": {"resourceVersion": "7"}, "data": data}))
    page = await nodes.RecordReader(client, namespace="kube-system", name=CONFIG_MAP).read()
    (machines,) = page.groups.values()
    assert machines.next_number == 1
    assert machines.asked_at.keys() == {0}


async def test_the_history_has_all_entries(api: FakeApi, client: KubeClient) -> None:
    for name in config_map_names():
        text = OLDER["history"].get(name)
        reply = ABSENT if text is None else Reply(body={"metadata": {"resourceVersion": "7"}, "data": {"history": text}})
        api.reply("GET", f"{MAPS}/{name}", reply)
    chunks = await ConfigMapHistory(client, namespace="kube-system").load()
    entries = [entry for chunk in chunks for entry in chunk.entries]
    want = {HistoryAction.PREEMPTED, HistoryAction.MIGRATING, HistoryAction.REFUSED, HistoryAction.SCALE_UP}
    assert {entry.action for entry in entries} == want
    (preempted,) = (entry for entry in entries if entry.action is HistoryAction.PREEMPTED)
    assert preempted.other.endswith("/high")
    assert preempted.pod.endswith("/low")
