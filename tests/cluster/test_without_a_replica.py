"""No replica answers: pods wait, or kube-scheduler places them without us, as `extender.ignorable` says."""

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = 20
#: kube-scheduler tries a pod again after 1, 2, 4, 8 and 10 s.
BOUND_WITHIN_SECONDS = 60.0


@pytest.mark.parametrize("ignorable", [False, True], ids=["pods wait", "pods are placed"])
async def test_while_no_replica_answers(stage: Stage, ground: Ground, ignorable: bool) -> None:
    await ground.make_nodes(5)
    service = await stage.up({"extender": {"ignorable": ignorable}})
    await ground.make_pods(a_pod(f"before-{number}", cpu="100m") for number in range(PODS))
    await ground.until_bound(PODS, within_seconds=BOUND_WITHIN_SECONDS)

    await service.kill()
    await ground.make_pods(a_pod(f"after-{number}", cpu="100m") for number in range(PODS))
    if ignorable:
        await ground.until_bound(2 * PODS, within_seconds=BOUND_WITHIN_SECONDS)
        assert len(await ground.pending()) == 0
    else:
        await anyio.sleep(5.0)  # each pod is tried at least twice
        assert len(await ground.pending()) == PODS
    await service.start()
    await ground.until_bound(2 * PODS, within_seconds=BOUND_WITHIN_SECONDS)
    await same_state(service, ground)
