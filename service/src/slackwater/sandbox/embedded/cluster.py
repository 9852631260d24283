"""The embedded cluster as a whole: an API server, and what lives around one."""

from collections.abc import Callable
from random import Random

from slackwater.sandbox.embedded.agenda import Agenda
from slackwater.sandbox.embedded.disruptions import Disruptions
from slackwater.sandbox.embedded.kubelets import Kubelets, Paces
from slackwater.sandbox.embedded.machines import Machines, Moves
from slackwater.sandbox.embedded.server import ApiServer


class Sandbox:
    """`run` it, and talk to `api`. A scheduler is started beside it, where there is one to ask (`scheduler.Scheduler`)."""

    def __init__(self, *, rng: Random, wall: Callable[[], float], paces: Paces = Paces(), moves: Moves = Moves()) -> None:
        self.api = ApiServer(rng=rng, wall=wall)
        self.agenda = Agenda()
        self.kubelets = Kubelets(self.api, self.agenda, rng=rng, wall=wall, paces=paces)
        self.disruptions = Disruptions(self.api, self.agenda)
        self.machines = Machines(self.api, self.agenda, rng=rng, moves=moves)

    async def run(self) -> None:
        """Until cancelled."""
        await self.agenda.run()
