"""The audit against a real API server: a cluster state that knows nothing becomes the cluster, and then stays as it is."""

from dataclasses import replace

import anyio
import pytest

from slackwater.adapters.kube.audit_reads import ApiAuditReads
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.audit.differences import Drift
from slackwater.controllers.audit.loop import Audit
from slackwater.model.events import Event
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.resources import CPU
from slackwater.runtime.state_machine import StateMachine
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage
from tests.support import installed
from tests.support.controlplane.stack import ControlPlane
from tests.support.invariants import violations
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def test_a_state_without_events_becomes_the_cluster(ground: Ground, control_plane: ControlPlane) -> None:
    names = await ground.make_nodes(3)
    await ground.make_pods(a_pod(f"p{number}", on=names[number % 3], cpu="100m") for number in range(30))
    await ground.until_bound(30, within_seconds=60)
    state_machine = StateMachine(installed.POLICY)

    def take(event: Event) -> None:
        state_machine.apply(event, Instant(anyio.current_time()))

    async with open_client(kubeconfig=str(control_plane.kubeconfig("admin"))) as client:
        truth = ApiAuditReads(client, PodDecoder(KindInterner()), page_size=7)
        audit = Audit(state_machine.state, truth, take, config=replace(installed.AUDIT, settle_seconds=0.1))
        assert await audit.audit()
        drifts = audit.counts.drifts
        assert (drifts[Drift.UNKNOWN_NODE] >= 3, drifts[Drift.UNKNOWN_POD] >= 30) == (True, True)
        assert violations(state_machine) == []
        of_ground = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in await ground.all_pods()}
        claims = {uid: claim.node for uid, claim in state_machine.state.reservations.copy().items()}
        assert {uid: claims.get(PodUid(uid)) for uid in of_ground} == of_ground

        state_machine.state.ledger.columns.reserved[CPU, state_machine.state.nodes.row_of[NodeName(names[0])]] += 17
        before = drifts[Drift.WRONG_SUM]
        assert await audit.audit()
        assert drifts[Drift.WRONG_SUM] == before + 1
        assert violations(state_machine) == []


async def test_a_busy_service_finds_nothing_to_repair(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(5)
    service = await stage.up({"audit": {"interval": "1s"}})
    names = await ground.make_pods(a_pod(f"p{number}", cpu="100m") for number in range(100))
    await ground.until_bound(100, within_seconds=60)
    await ground.delete_pods(names[:50])

    async def audits() -> int:
        return (await service.metrics()).value("slackwater_audits_total", result="done")

    seen = await audits()
    await eventually(audits, lambda n: n > seen, within_seconds=60, wanted="an audit after the work")
    metrics = await service.metrics()
    assert metrics.by("slackwater_audit_differences_total", "cause") == {}
    await same_state(service, ground)
