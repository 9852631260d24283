"""The scenes that the canary plays on a real control plane, and what kube-scheduler asks an extender in each.

- plain: a pod without constraints; the usual calls and their bodies
- refused: the extender refuses every node, and kube-scheduler's own filters find no victims: is preempt called?
- preemptor: a pod that only fits once another has left; the order of preempt and filter
- nominated: a pod whose `status.nominatedNodeName` was set while it was gated, before its first cycle: which nodes does it see?

Preemptions and nominations after a sample miss rest on the last two, and nothing promises them (KEP-5278).
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import aiohttp
import anyio

from slackwater.app.scheduler_config.generate import generate
from slackwater.app.settings import Settings
from slackwater.app.settings.serving import Extender
from slackwater.sandbox.free_ports import FreePorts
from tests.canary.recorder import ExtenderCall, Recorder, recording
from tests.cluster.support.bodies import a_node, a_pod
from tests.controlplane.talk import create, is_ready, read, read_until
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import until

_PODS: Final = "/api/v1/namespaces/default/pods"
_SMALL: Final = {"pool": "small"}
_GATE: Final = "canary.slackwater.dev/wait"
_SECONDS: Final = 60.0
#: How long after a refusal further calls would come: the back-off of a first failure is one second.
_QUIET_SECONDS: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenes:
    """What was asked. `sequences`: the calls about each pod, in order; `bodies`: the first body of each verb."""

    sequences: dict[str, list[str]]
    bodies: dict[str, dict[str, Any]]


async def play(binaries: Binaries) -> Scenes:
    """Plays all scenes on a control plane of its own."""
    ports, refused = FreePorts(Random()), frozenset({"refused"})
    async with ControlPlane(binaries) as cp, cp.session() as api, recording(api, ports, refused) as (recorder, url):
        await _prepare(api)
        settings = Settings(extender=Extender(bind=True))
        await cp.start_scheduler(generate(settings, kubeconfig=str(cp.kubeconfig("scheduler")), extender_url=url))
        await _plain(api, recorder)
        await _refused(api, recorder)
        await _preemptor(api)
        await _nominated(api)
        calls = recorder.calls
    pods = ("plain", "refused", "preemptor", "nominated")
    return Scenes(sequences={pod: recorder.of(pod) for pod in pods}, bodies=_first_bodies(calls))


def _first_bodies(calls: list[ExtenderCall]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for call in calls:
        found.setdefault(call.verb, call.body)
    return found


async def _prepare(api: aiohttp.ClientSession) -> None:
    for name, cpu, labels in (("n0", "16", {}), ("n1", "16", {}), ("n2", "16", {}), ("small-0", "2", _SMALL)):
        taints = [{"key": "small", "effect": "NoSchedule"}] if labels else []
        await create(api, "/api/v1/nodes", a_node(name, cpu=cpu, labels=labels, taints=taints))
    for name in ("n0", "n1", "n2", "small-0"):
        await read_until(api, f"/api/v1/nodes/{name}", is_ready, seconds=_SECONDS)
    await read_until(api, "/api/v1/namespaces/default", lambda _: True)
    priority = {"metadata": {"name": "canary-high"}, "value": 1000}
    await create(api, "/apis/scheduling.k8s.io/v1/priorityclasses", priority)


async def _plain(api: aiohttp.ClientSession, recorder: Recorder) -> None:
    await create(api, _PODS, a_pod("plain"))
    await _until_bound(api, "plain")
    assert recorder.of("plain"), "kube-scheduler bound a pod without asking its extender"


async def _refused(api: aiohttp.ClientSession, recorder: Recorder) -> None:
    await create(api, _PODS, a_pod("refused", priorityClassName="canary-high"))
    await until(lambda: bool(recorder.of("refused")), seconds=_SECONDS)
    await anyio.sleep(_QUIET_SECONDS)
    async with api.delete(f"{_PODS}/refused", params={"gracePeriodSeconds": "0"}):
        pass
    # How often it is tried again is a matter of time: only what comes first counts.
    recorder.calls[:] = [call for at, call in enumerate(recorder.calls) if not _repeats(recorder.calls, at)]


def _repeats(calls: list[ExtenderCall], at: int) -> bool:
    call = calls[at]
    return call.pod == "refused" and any(str(each) == str(call) and each.pod == call.pod for each in calls[:at])


async def _preemptor(api: aiohttp.ClientSession) -> None:
    here: dict[str, Any] = {"nodeSelector": _SMALL, "tolerations": [{"key": "small", "operator": "Exists"}]}
    await create(api, _PODS, a_pod("victim", cpu="1500m", **here))
    await _until_bound(api, "victim")
    await create(api, _PODS, a_pod("preemptor", cpu="1", priorityClassName="canary-high", **here))
    await _until_bound(api, "preemptor")


async def _nominated(api: aiohttp.ClientSession) -> None:
    await create(api, _PODS, a_pod("nominated", schedulingGates=[{"name": _GATE}]))
    merge = {"Content-Type": "application/merge-patch+json"}
    nomination = {"status": {"nominatedNodeName": "n1"}}
    async with api.patch(f"{_PODS}/nominated/status", json=nomination, headers=merge) as answer:
        assert answer.status == 200, await answer.text()
    async with api.patch(f"{_PODS}/nominated", json={"spec": {"schedulingGates": []}}, headers=merge) as answer:
        assert answer.status == 200, await answer.text()
    await _until_bound(api, "nominated")


async def _until_bound(api: aiohttp.ClientSession, pod: str) -> None:
    await read_until(api, f"{_PODS}/{pod}", lambda found: bool(found["spec"].get("nodeName")), seconds=_SECONDS)
    await read(api, f"{_PODS}/{pod}")
