"""What a service's metrics say of its node choices."""

from typing import Final

import aiohttp

from tests.bench.contenders import Entrant

CHOSEN: Final = "chosen"
CHOSEN_MET: Final = "chosen, and bound there"
_NAMES: Final = {"slackwater_node_choices_total": CHOSEN, "slackwater_node_choices_met_total": CHOSEN_MET}


async def choices(entrant: Entrant) -> dict[str, float]:
    """For how many pods a node was chosen until now, and how many of them were bound there. The watch that tells of binds may
    be seconds behind them."""
    async with aiohttp.ClientSession() as session, session.get(f"{entrant.launch.url}/metrics") as answer:
        text = await answer.text()
    values = (line.rpartition(" ") for line in text.splitlines())
    return {_NAMES[name]: float(value) for name, _, value in values if name in _NAMES}
