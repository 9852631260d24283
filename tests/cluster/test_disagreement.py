"""A kube-scheduler whose profile differs from that in our configuration: the service notices, says so, and believes it.

The profile requires a label that the service does not know of, and does not filter by taints, by which the service judges.
"""

from typing import Any, Final

import anyio
import pytest

from slackwater.controllers.disagreement.state import LAG_SECONDS
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import SCHEDULER, Stage
from tests.cluster.test_scale_up import grant
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_TRUSTED: Final = {"trusted": "yes"}
#: What kube-scheduler logs of each attempt that fails; it writes equal conditions and Events only once or twice.
_NO_FIT: Final = '"Unable to schedule pod; no fit; waiting"'
_WORDS: Final = "didn't match scheduler-enforced node affinity"


def other_rules(document: dict[str, Any]) -> None:
    (profile,) = document["profiles"]
    required = [{"matchExpressions": [{"key": "trusted", "operator": "In", "values": ["yes"]}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    profile.setdefault("pluginConfig", []).append({"name": "NodeAffinity", "args": {"addedAffinity": affinity}})
    # By `multiPoint` a plug-in has all its points; it goes from one of them like this.
    profile.setdefault("plugins", {})["filter"] = {"disabled": [{"name": "TaintToleration"}]}


def settings_of(ground: Ground) -> dict[str, Any]:
    labels = {"slackwater.test/ground": ground.name, **_TRUSTED}
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    group = {
        "name": f"{ground.name}-pool",
        "provider": "kwok",
        "maxSize": 5,
        "template": {"metadata": {"labels": labels}, "status": status},
        "kwok": {"appearAfter": "500ms", "bootAfter": "200ms"},
    }
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "2s",
            "scaleUp": {"believeScheduler": True},
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "statusConfigMap": f"{ground.name}-status",
        }
    }


@pytest.mark.timeout(120)
async def test_disagreements_with_kube_scheduler_are_seen_and_it_is_believed(stage: Stage, ground: Ground) -> None:
    settings = settings_of(ground)
    await grant(ground, settings)
    await ground.make_nodes(2, tag="plain")
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    await ground.make_nodes(1, tag="tainted", labels=_TRUSTED, cpu="1", taints=[taint])
    service = await stage.up(settings, edit=other_rules, arguments=["--v=2"])
    await anyio.sleep(LAG_SECONDS + 0.5)  # the nodes are older than any difference between the watches
    await ground.make_pods([a_pod("misplaced", cpu="100m"), a_pod("refused", cpu="2")])

    said = await eventually(lambda: explained(service, ground, "refused"), _disputes, within_seconds=40, wanted="disputed")
    (reason,) = [reason for reason in said["reasons"] if reason["code"] == "scheduler_disagrees"]
    assert _WORDS in reason["detail"]
    assert reason["objects"] == [f"node {ground.name}-plain-000", f"node {ground.name}-plain-001"]
    refusals = (stage.control_plane.logs / f"{SCHEDULER}.log").read_text().count(f'{_NO_FIT} pod="{ground.name}/refused"')
    assert 1 <= refusals <= 3

    node = await ground.until_placed("refused", within_seconds=40)
    assert node == f"{ground.name}-pool-000000", "a node was bought for it"
    said = await eventually(lambda: explained(service, ground, "misplaced"), _placed, within_seconds=40, wanted="compared")
    metrics = await service.metrics()
    assert metrics.total("slackwater_refusals_disputed_total") == 1
    agreement = (await service.statusz())["agreement"]
    assert agreement["bindsDisagreed"] == 1
    assert 0 <= agreement["percent"] < 100
    events = await ground.read(f"/apis/events.k8s.io/v1/namespaces/{ground.name}/events")
    notes = {event["regarding"]["name"]: event["note"] for event in events["items"] if event["reason"] == "SchedulerDisagrees"}
    assert _WORDS in notes["refused"]
    assert "TaintToleration" in notes["misplaced"]


async def explained(service: SlackwaterProcess, ground: Ground, name: str) -> dict[str, Any]:
    async with service._http.get(f"/explain/pods/{ground.name}/{name}") as answer:
        return await answer.json() if answer.status == 200 else {"reasons": []}  # its watch may not show the pod yet


def _disputes(said: dict[str, Any]) -> bool:
    return any(reason["code"] == "scheduler_disagrees" for reason in said["reasons"])


def _placed(said: dict[str, Any]) -> bool:
    return any(reason["code"] == "placed_against_rules" for reason in said["reasons"])
