"""A pod that we refused is tried again when room appears, also where no event of the cluster tells kube-scheduler so.

In all of these kube-scheduler's own filters accept the node throughout: what is full is our accounting alone. kube-scheduler
tries a refused pod again by itself only after five minutes.
"""

from pathlib import Path

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.slow_wire import slow_wire
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

SYSTEM = {"nodes": {"system": {"cpu": "2"}}}
FIRST_BACKOFF_SECONDS = 1.0  #: kube-scheduler's default
WOKEN_WITHIN_SECONDS = 60.0
#: Longer than kube-scheduler takes to ask, on a machine that stands still for a while, too.
DELAY_SECONDS = 60.0


async def test_a_pod_refused_before_our_watch_showed_the_room_gets_it_once_it_does(
    stage: Stage, ground: Ground, tmp_path: Path
) -> None:
    """kube-scheduler learns of a deletion first, asks us at once, is refused, and hears of nothing more."""
    await ground.make_nodes(1, cpu="4")
    async with slow_wire(stage.control_plane.kubeconfig("slackwater"), tmp_path) as wire:
        service = await stage.up(SYSTEM, kubeconfig=wire.kubeconfig)

        async def touches() -> int:
            return (await service.metrics()).value("slackwater_api_calls_total", effect="Activate", verdict="done")

        async def asked() -> int:
            return (await service.metrics()).value("slackwater_extender_requests_total", verb="filter", code="200")

        await ground.make_pods([a_pod("first", cpu="1500m")])
        await ground.until_bound(1, within_seconds=60)
        await ground.make_pods([a_pod("second", cpu="1500m")])
        await ground.until_refused("second")

        # While it backs off, an event only ends its wait: it would ask late enough to find the room.
        await anyio.sleep(1.5 * FIRST_BACKOFF_SECONDS)

        before = await asked()
        wire.delay_seconds = DELAY_SECONDS
        await ground.delete_pods(["first"])
        # It is refused: the service has not heard of the deletion.
        await eventually(asked, lambda n: n > before, within_seconds=DELAY_SECONDS / 2, wanted="kube-scheduler asked again")

        wire.delay_seconds = 0.0
        await ground.until_placed("second", within_seconds=WOKEN_WITHIN_SECONDS)
        await eventually(touches, lambda n: n >= 1, within_seconds=60, wanted="the pod touched by us")
        await same_state(service, ground)


async def test_room_that_a_changed_configuration_makes_is_used(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(1, cpu="4")
    service = await stage.up(SYSTEM)
    await ground.make_pods([a_pod("first", cpu="1500m")])
    await ground.until_bound(1, within_seconds=60)
    await ground.make_pods([a_pod("second", cpu="1500m")])
    await ground.until_refused("second")

    service.write_config({})

    await ground.until_placed("second", within_seconds=WOKEN_WITHIN_SECONDS)
    await same_state(service, ground)
