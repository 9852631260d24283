"""An error of planning costs growth only those pods, or that node group, that it concerns."""

from dataclasses import replace

import pytest
import structlog
from msgspec import structs
from structlog.testing import capture_logs

from slackwater.app.offline.growth import planned_growth
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import PodConstraints, SpreadConstraint
from slackwater.model.selectors import Requirement
from tests.support.builders import a_node, a_pod
from tests.support.devices import (
    DRIVER,
    ask,
    class_body,
    cluster_of,
    device,
    devices_of,
    node_body,
    pod_body,
    slice_body,
    template_body,
)
from tests.support.scaling import Scenario
from tests.support.scalingup import a_group, a_template, grown, planned

_ZONE = "topology.kubernetes.io/zone"


def broken(name: str, *, cpu: str = "1") -> Pod:
    """A pod on which every plan raises: what no decoder lets through."""
    asks = PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=None, topology_key=_ZONE, selector=()),))  # type: ignore[arg-type]
    pod = a_pod(name, cpu=cpu)
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=asks))


def failed(plan: ScaleUpPlan) -> dict[str, set[str]]:
    """The kinds of reasons of pods that no group helps."""
    return {
        pod.key.name: {why.kind for why in each.groups.values() if isinstance(why, SkipReason)}
        for each in plan.unhelpable
        for pod in each.pods
    }


def test_pods_on_which_planning_raises_get_no_node_and_all_others_do() -> None:
    pods = [a_pod("good", cpu="3"), *(broken(f"bad-{number}", cpu=f"{100 + number}m") for number in range(40))]
    plan = planned(pods, [a_group("g", a_template("t", labels={_ZONE: "z"}))])
    assert grown(plan) == {"g": 1}
    assert failed(plan) == {f"bad-{number}": {"error"} for number in range(40)}
    assert 1 < len(plan.failures) < 12  # one by one only at first
    assert all("TypeError" in each.error and "Traceback" in each.trace for each in plan.failures)


def test_a_group_on_which_planning_raises_leaves_growth_to_the_others() -> None:
    unread = structs.replace(a_pod("daemon"), kind=replace(a_pod("d").kind, pod_constraints=_reading("unread")))
    groups = [a_group("broken", running_pods=[unread], upcoming=1), a_group("good")]
    plan = planned([a_pod("p", cpu="3")], groups)
    assert grown(plan) == {"good": 1}
    assert [(each.part, each.about) for each in plan.failures] == [("group", "node group broken")]


def test_claims_get_their_devices_in_the_order_in_which_they_were_planned() -> None:
    """The pod of the larger request is planned first, however the snapshot numbers the two."""
    size = f'device.attributes["{DRIVER}"].size'
    cluster = cluster_of(
        class_body(),
        template_body(devices_of(ask(1)), name="any"),
        template_body(devices_of(ask(1, f'{size} == "big"')), name="big"),
        node_body("n1", group="gpus"),
        slice_body("n1", device("gpu-0", size="big"), device("gpu-1", size="small")),
        pod_body("full", on="n1", requests={"cpu": "8"}),
        pod_body("a-any", template="any"),
        pod_body("b-big", template="big", requests={"cpu": "2"}),
        pod_body("c-any", template="any", requests={"cpu": "7"}),
    )
    plan = planned_growth(cluster, Settings(), accounting=False).found.plan
    assert (grown(plan), plan.failures, plan.unhelpable) == ({"gpus": 2}, (), ())


@pytest.mark.anyio
async def test_the_loop_buys_for_the_others_and_logs_an_error_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.runtime.autoscaler.cycle._log", structlog.get_logger())  # other tests configure the old one
    scenario = Scenario()
    scenario.cloud.has("g", template=structs.replace(a_node("template", labels={_ZONE: "z"}), scalars=(("pods", 110),)))
    scenario.wants(a_pod("good", cpu="3"), broken("bad"))
    with capture_logs() as logs:
        records = [await scenario.loop(), await scenario.loop()]
    assert scenario.sizes() == {"g": 1}
    assert [line["object"] for line in logs if line["event"] == "left out of the plan"] == ["pods default/bad"]
    assert [[each.part for each in record.failures] for record in records] == [["pods"], ["pods"]]
    assert all("pods default/bad left out of the plan: TypeError" in record.notes[0] for record in records)
    assert "planning failed: TypeError" in scenario.said("NotTriggerScaleUp")[0].note


def _reading(key: str) -> PodConstraints:
    selector = (Requirement(key, "In", ("x",)),)
    return PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key=_ZONE, selector=selector),))
