"""What the leader did is told by the other replica: while it stands by, and when it has taken over."""

import pytest

from tests.cluster.replicas.pair import Pair
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.test_history import until_reported
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def test_a_hand_over_loses_nothing_of_what_happened(pair: Pair, ground: Ground) -> None:
    await ground.make_nodes(1, cpu="4")
    await pair.up({})
    await ground.make_pods([a_pod("waits", cpu="6")])
    old = await pair.leader()
    new = pair.other(old)
    path = f"pods/{ground.name}/waits"
    reported = await until_reported(old.service, path, "refused")
    assert await until_reported(new.service, path, "refused") == reported, "a standby reads what the leader writes"

    await ground.delete_pods(["waits"])
    await ground.make_pods([a_pod("late", cpu="6")])
    late = await until_reported(old.service, f"pods/{ground.name}/late", "refused")
    old.terminate()
    await old.ended()
    await eventually(new.leads, bool, within_seconds=60, wanted="the other leads")
    assert await until_reported(new.service, path, "refused") == reported, "of a pod that is gone"
    # The old kube-scheduler may release their Lease before the last seconds are written: the pod is still there to be seen.
    again = await until_reported(new.service, f"pods/{ground.name}/late", "refused")
    assert [entry["text"] for entry in again] == [entry["text"] for entry in late]
    await old.start()
    assert await until_reported(old.service, path, "refused") == reported
