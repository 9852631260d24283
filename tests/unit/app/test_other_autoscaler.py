"""What Cluster Autoscaler's status says of its groups: read, understood, grown old, and what is left when it cannot be read."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from slackwater.adapters.api_calls import Read, Response
from slackwater.adapters.kube.config_maps import BadStatus, listed_groups
from slackwater.app.other_autoscaler import ListedGroups

pytestmark = pytest.mark.anyio

LAST = "cluster-autoscaler.kubernetes.io/last-updated"
#: As Cluster Autoscaler 1.30 and later write it, shortened.
STATUS = """time: 2026-11-24 06:29:00.5 +0000 UTC
autoscalerStatus: Running
clusterWide: {health: {status: Healthy}}
nodeGroups:
- name: pool-a
  health: {status: Healthy, minSize: 1}
- name: MachineDeployment/default/md-0
  health: {status: Healthy}
"""


def written(at: float, text: str = STATUS, *, manager: str = "cluster-autoscaler") -> Response:
    """The ConfigMap as it was written at a Unix time; Slackwater made it once."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.5 +0000 UTC")
    fields = [
        {"manager": "slackwater", "fieldsV1": {"f:data": {".": {}}}},
        {"manager": manager, "fieldsV1": {"f:data": {"f:status": {}}}},
    ]
    body = {"metadata": {"annotations": {LAST: stamp}, "managedFields": fields}, "data": {"status": text}}
    return Response(200, json.dumps(body).encode(), {})


class Api:
    def __init__(self, answer: Callable[[], Response]) -> None:
        self.answer = answer

    async def send(self, call: Read) -> Response:
        assert call.path == "/api/v1/namespaces/kube-system/configmaps/of-ca"
        return self.answer()


async def test_its_groups_count_for_ten_minutes_after_it_was_written() -> None:
    now = 1.8e9
    api = Api(lambda: written(1.8e9))
    groups = ListedGroups(api, "of-ca", wall=lambda: now)
    assert groups.names == frozenset()
    await groups.look()
    assert groups.names == {"pool-a", "MachineDeployment/default/md-0"}
    api.answer = lambda: Response(403, b"{}", {})
    now += 300
    await groups.look()
    assert len(groups.names) == 2, "as long as what was read is not old"
    assert "which groups Cluster Autoscaler has is not known, ConfigMap of-ca" in groups.problem
    now += 301
    await groups.look()
    assert groups.names == frozenset()
    api.answer = lambda: Response(404, b"{}", {})
    await groups.look()
    assert (groups.names, groups.problem) == (frozenset(), "")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (written(1.8e9 - 601), ""),
        (written(1.8e9 + 601), ""),
        (written(1.8e9, manager="slackwater"), ""),
        (written(1.8e9, "{"), "it is not YAML"),
        (written(1.8e9, "Cluster-autoscaler status at 2022\nNodeGroups:\n  Name: pool-a\n"), "want the format of"),
        (Response(200, b"[]", {}), "no ConfigMap"),
        (Response(200, b"{}", {}), "no ConfigMap"),
    ],
    ids=["old", "of a time to come", "ours", "no YAML", "before 1.30", "no object", "no metadata"],
)
async def test_what_marks_no_group(answer: Response, problem: str) -> None:
    groups = ListedGroups(Api(lambda: answer), "of-ca", wall=lambda: 1.8e9)
    await groups.look()
    assert groups.names == frozenset()
    assert (problem in groups.problem) if problem else groups.problem == ""


async def test_a_status_by_a_clock_ahead_of_ours_counts_for_no_longer() -> None:
    now = 1.8e9
    groups = ListedGroups(Api(lambda: written(1.8e9 + 500)), "of-ca", wall=lambda: now)
    await groups.look()
    assert len(groups.names) == 2
    now += 600
    assert groups.names == frozenset()


@pytest.mark.parametrize("groups", ["nodeGroups: 5", "nodeGroups: [pool-a]", "nodeGroups: [{name: 5}]", "[]", "", "a: 1"])
def test_a_status_in_another_form_is_refused(groups: str) -> None:
    with pytest.raises(BadStatus):
        listed_groups(groups)


def test_a_status_without_groups_lists_none() -> None:
    some: dict[str, Any] = {"clusterWide": {}, "nodeGroups": None}
    assert listed_groups(json.dumps(some)) == frozenset()
