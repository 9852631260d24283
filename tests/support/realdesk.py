"""The agents' listener over the service's own desk, in one process; writes succeed at once."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from slackwater.adapters.http.agents import CallerAuthenticator
from slackwater.adapters.http.application import Headers
from slackwater.controllers.permits.service import PermitService
from slackwater.model.effects import Effect
from slackwater.model.events import Synced
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.permits import Caller, PermitRefusal
from slackwater.model.vertical import MigrationRef
from slackwater.runtime.dump import Dump, state_of
from tests.support.agents import AgentService, an_agent_service
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing


@dataclass
class Cluster:
    """`n` has 10 CPUs and 40 GiB. On it: machine `vm` (1 CPU, 4 GiB; at most 4 and 16), `half` likewise with slots of half a
    GiB, `moving` that is being migrated, the ordinary pod `plain`; and pods `pending` and `done`."""

    growing: Growing
    service: AgentService

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        return await self.service.post(body, **headers)

    def state(self) -> dict[str, Any]:
        """All of it but the generation, which counts questions too."""
        return {**json_of(state_of(Dump(self.growing.state_machine, Instant(self.growing.now)))), "generation": 0}


@asynccontextmanager
async def a_real_permit_service(*, caller: Caller | PermitRefusal | None = None) -> AsyncIterator[Cluster]:
    """`caller` is who every request is from."""
    growing = Growing()
    growing.has_node(a_node("n", cpu="10", memory="40Gi"))
    growing.places("vm", on="n", vertical=a_vertical())
    growing.places("half", on="n", vertical=a_vertical(slot_bytes=1 << 29))
    growing.has_pod("plain", on="n", vertical=None)
    growing.has_pod("pending", on=None, vertical=a_vertical(machine="pending"))
    growing.store(a_pod("done", on="n", ended=True))
    moving = growing.places("moving", on="n", vertical=a_vertical(auto_migrate=True, always_migrate=True))
    growing.has_node(a_node("other", cpu="10", memory="40Gi"))
    growing.take(Synced())
    for _ in range(2):
        growing.ask(moving, amounts("1", "4Gi"))
    growing.write()
    growing.change(moving, migration=MigrationRef(name=f"schedplugin-{moving.key.name}", role="source"))
    growing.passes(5)
    growing.write()

    def submit(effects: Iterable[Effect]) -> None:
        for effect in effects:
            growing.carry_out(effect)

    permit_service = PermitService(growing.state_machine, submit, growing.state_machine_now)
    authenticator: CallerAuthenticator | None = None if caller is None else _Knows(caller)
    async with an_agent_service(permit_service=permit_service, authenticator=authenticator) as service:
        assert growing.state_machine.migrating.is_notified(growing.pods[PodKey("default", "moving-pod")])
        assert NodeName("n") in growing.nodes
        yield Cluster(growing, service)


@dataclass
class _Knows:
    who: Caller | PermitRefusal

    def at_once(self, headers: Headers, peer: str | None) -> Caller | PermitRefusal:
        del headers, peer
        return self.who

    async def caller(self, headers: Headers, peer: str | None, address: str) -> Caller | PermitRefusal:
        del address
        return self.at_once(headers, peer)
