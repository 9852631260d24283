"""An agent that behaves as Neon's do: what a scheduler has to cope with, in our own words.

One VM. Its load says how many compute units it wants; going up it asks first and grows to its permit, going down it shrinks
first and tells. Every answer is judged; what is judged bad is in `rejected`. Deliberately absent: the times between requests.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from slackwater_protocol.agent import Metrics, Resources
from slackwater_protocol.agent_client import AgentClient, AnswerRefused, BadAnswer, NoAnswer
from slackwater_protocol.agent_versions import ProtocolVersion


@dataclass
class VmAgent:
    """`unit` and all amounts are in the units of the client's version. `in_use` is what the VM has now."""

    client: AgentClient
    unit: Resources
    in_use: Resources
    bounds: tuple[int, int]  #: smallest and largest size in compute units
    version: ProtocolVersion = ProtocolVersion.V5_0
    rejected: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    denied: int = 0
    asked: Resources | None = None  #: in the last request
    #: Makes the VM as large as that, before it is told (down) or after it was permitted (up).
    resize: Callable[[Resources], Awaitable[None]] | None = None

    async def step(self, load: float) -> None:
        """One request, and what follows from its answer. `load` is the load average of one minute."""
        low, high = self.bounds
        wanted = self.sized(min(max(-(-load * 1000 // (0.9 * self.unit.milli_cpu)), low), high))
        await self._become(both(min, self.in_use, wanted))  # what is given back is given back before it is told
        if self.client.permit is None:
            wanted = self.in_use  # nobody has permitted anything yet
        self.asked = both(max, wanted, self.in_use)
        try:
            permit = await self.client.ask(self.asked, in_use=self.in_use, metrics=self._metrics(load))
        except BadAnswer as error:
            self.rejected.append(str(error))
        except (AnswerRefused, NoAnswer) as error:
            self.failed.append(str(error))
        else:
            self.denied += permit != wanted
            await self._become(both(min, both(max, wanted, self.in_use), permit))

    async def _become(self, size: Resources) -> None:
        changed, self.in_use = size != self.in_use, size
        if changed and self.resize is not None:
            await self.resize(size)

    def sized(self, units: float) -> Resources:
        return Resources(milli_cpu=int(units) * self.unit.milli_cpu, memory=int(units) * self.unit.memory)

    def _metrics(self, load: float) -> Metrics:
        if self.version >= ProtocolVersion.V5_0:
            return Metrics(load_avg_1m=load)
        return Metrics(load_avg_1m=load, load_avg_5m=load / 2, memory_usage_bytes=1e9)


def both(choose: Callable[[int, int], int], one: Resources, other: Resources) -> Resources:
    """`choose` of the two, resource by resource."""
    return Resources(milli_cpu=choose(one.milli_cpu, other.milli_cpu), memory=choose(one.memory, other.memory))
