"""What a service that tells pods where to go says became of its nominations."""

from typing import Final

import aiohttp
import anyio

from tests.bench.contenders import Entrant

_LOOK_EVERY_SECONDS: Final = 0.5
#: Nobody was told for so many looks: there is nobody left, or no room.
_QUIET_LOOKS: Final = 4
_MOST_LOOKS: Final = 240
_PREFIX: Final = "slackwater_steering_nominations"


async def nominations(entrant: Entrant) -> dict[str, float]:
    """How many were `made` and `met`, and how many missed for each reason there was."""
    async with aiohttp.ClientSession() as session, session.get(f"{entrant.launch.url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(f"{_PREFIX}_total"):
            found["made"] = float(value)
        elif name.startswith(f"{_PREFIX}_met_total"):
            found["met"] = float(value)
        elif name.startswith(f"{_PREFIX}_missed_total") and float(value):
            found[name.partition('reason="')[2].rstrip('"}')] = float(value)
    return found


async def until_told(entrant: Entrant) -> None:
    """Until nobody is left who could be told without kube-scheduler."""
    made, quiet = 0.0, 0
    for _ in range(_MOST_LOOKS):
        seen = (await nominations(entrant))["made"]
        quiet = quiet + 1 if seen == made else 0
        if quiet == _QUIET_LOOKS:
            return
        made = seen
        await anyio.sleep(_LOOK_EVERY_SECONDS)
