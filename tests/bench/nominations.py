"""A service that nominates pods in advance: its settings, and what its metrics say became of its nominations."""

from typing import Final

import aiohttp
import anyio

from tests.bench.contenders import Entrant
from tests.bench.options import PATIENCE_SECONDS, BenchFailed

#: In the configuration file beside the addresses.
NOMINATES_ALWAYS: Final = "steering: {minNodes: 0}\n"

_LOOK_EVERY_SECONDS: Final = 0.5
#: No pod was nominated for so many looks: no pod is left, or no room.
_QUIET_LOOKS: Final = 4
_MOST_LOOKS: Final = int(PATIENCE_SECONDS / _LOOK_EVERY_SECONDS)
_PREFIX: Final = "slackwater_steering_nominations"
CHOSEN_MET: Final = "chosen, and bound there"
_CHOICES: Final = {
    "slackwater_steering_choices_total": "chosen when filter was asked",
    "slackwater_steering_choices_met_total": CHOSEN_MET,
}


async def ended(entrant: Entrant) -> dict[str, float]:
    """`nominations` once none is open: the watch that tells of binds may be seconds behind them. BenchFailed if some stay."""
    became: dict[str, float] = {}
    for _ in range(_MOST_LOOKS):
        became = await nominations(entrant)
        if became["made"] == sum(count for what, count in became.items() if what not in ("made", *_CHOICES.values())):
            return became
        await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise BenchFailed(f"nominations are open after {PATIENCE_SECONDS:g} s: {became}")


async def nominations(entrant: Entrant) -> dict[str, float]:
    """How many were `made` and `met` until now, and how many missed for each reason there was; for how many pods a node was
    chosen when filter was asked, and how many of them were bound there."""
    async with aiohttp.ClientSession() as session, session.get(f"{entrant.launch.url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name in _CHOICES:
            found[_CHOICES[name]] = float(value)
        if name.startswith(f"{_PREFIX}_total"):
            found["made"] = float(value)
        elif name.startswith(f"{_PREFIX}_met_total"):
            found["met"] = float(value)
        elif name.startswith(f"{_PREFIX}_missed_total") and float(value):
            found[name.partition('reason="')[2].rstrip('"}')] = float(value)
    return found


async def until_nominated(entrant: Entrant) -> None:
    """Until no more pod can be nominated without kube-scheduler. Raises BenchFailed where it does not end."""
    made, quiet = 0.0, 0
    for _ in range(_MOST_LOOKS):
        seen = (await nominations(entrant))["made"]
        quiet = quiet + 1 if seen == made > 0 else 0
        if quiet == _QUIET_LOOKS:
            return
        made = seen
        await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise BenchFailed(f"{made:g} pods were nominated in {PATIENCE_SECONDS:g} s, and it goes on")
