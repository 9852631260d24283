"""What consolidation changes, or would change if it were on: nodes, money for an hour, evictions.

The cluster is read with the user's rights and planned as `slackwater simulate consolidate` does, within `READ_SECONDS`,
`PLAN_SECONDS` and the steps of a plan, so that the other checks need not wait for a huge cluster.
"""

import time
from typing import Final

import anyio

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.errors import KubeError
from slackwater.app.doctor import Check, ok, unknown, unseen
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.consolidation import consolidation_answer
from slackwater.app.offline.files import fetch_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.settings import Settings, SettingsError
from slackwater.fit.steps import MOST_STEPS

READ_SECONDS: Final = 60.0
PLAN_SECONDS: Final = 30.0
_NAME: Final = "consolidation"
_BY_HAND: Final = "slackwater simulate consolidate says it without a limit of time"


async def consolidation(client: ApiPort, settings: Settings) -> Check:
    """The check. Nothing is changed, whether consolidation is on or off."""
    try:
        with anyio.fail_after(READ_SECONDS):
            cluster = await fetch_cluster(client)
    except TimeoutError:
        return unknown(_NAME, f"the cluster was not read within {READ_SECONDS:.0f} s", _BY_HAND)
    except KubeError as error:
        return unseen(_NAME, error, "ask for the rights to list nodes and pods")
    except ClusterError as error:
        return unknown(_NAME, str(error), _BY_HAND)
    try:
        return judged(cluster, settings)
    except SettingsError as error:  # the table of prices
        return unknown(_NAME, str(error), "slackwater config check F says what is wrong")


def judged(cluster: Cluster, settings: Settings, *, seconds: float = PLAN_SECONDS) -> Check:
    """The check of a cluster that was read; planning ends after so many seconds."""
    ends = time.monotonic() + seconds
    answer = consolidation_answer(cluster, settings, plan_steps=MOST_STEPS, stop=lambda: time.monotonic() > ends)
    on = settings.autoscaler.consolidation.enabled
    state = "on" if on else "off (autoscaler.consolidation.enabled)"
    if answer.cost is None or answer.cost_after is None:
        return ok(_NAME, f"{state}; no node belongs to a node group")
    going, coming = sum(len(move.leaving) for move in answer.moves), sum(sum(move.coming.values()) for move in answer.moves)
    cut = " (planning was cut short)" if answer.planning.cut_by else ""
    if not going:
        return ok(_NAME, f"{state}; it {'replaces' if on else 'would replace'} no node now{cut}")
    money = (
        f"{answer.cost.per_hour} to {answer.cost_after.per_hour} {answer.cost.currency} an hour ({answer.cost.basis} prices)"
    )
    what = f"{going} nodes go and {coming} come, {answer.evictions} evictions, {money}{cut}"
    return ok(_NAME, f"{state}; {'next' if on else 'it would change'}: {what}")
