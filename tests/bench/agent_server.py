"""The agents' and the extender's listener in one process and on one event loop, as in the service, without an API server.

The permit service, the state machine and the dispatcher are the service's own; a stand-in for the API server takes its time for
each write. Beside them an echo that reads nothing. Prints the ports as JSON once all listen; ends when its input ends.
"""

import argparse
import gc
import json
import sys
from itertools import count
from random import Random
from typing import Final

import anyio
import anyio.to_thread
import structlog
from msgspec import structs
from prometheus_client import CollectorRegistry

from slackwater.adapters.http.agents import AgentsApp
from slackwater.adapters.http.extender import ExtenderApp, ExtenderMetrics
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.controllers.permits.service import PermitService
from slackwater.model.effects import ApiEffect, WritePermit
from slackwater.model.events import Event, MachineSeen, NodeSeen, PermitWritten, PodSeen, Synced
from slackwater.model.ids import Instant, PodKey
from slackwater.model.permits import PersistedPermit
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.vertical import Machine
from slackwater.ports.clock import monotonic
from slackwater.ports.protocols import Outcome
from slackwater.runtime.dispatcher import Dispatcher
from slackwater.runtime.intake import Intake
from slackwater.runtime.state_machine import StateMachine
from tests.bench.echo_server import Echo
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts

#: VMs of one node: 1 CPU and 4 GiB each of 32 and 128.
AGENTS_ON_A_NODE: Final = 20
#: An API server at rest takes about so long for a small patch.
_WRITE_SECONDS: Final = 0.003
_SMALL: Final = amounts("1", "4Gi")


class _ApiServer:
    """Stands for the API server: every write succeeds, after a while."""

    def __init__(self) -> None:
        self._versions = count(1_000_000)

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        del timeout_seconds
        await anyio.sleep(_WRITE_SECONDS)
        if isinstance(effect, WritePermit):
            return Outcome("done", 200, event=PermitWritten(effect.pod, effect.text, next(self._versions)))
        return Outcome("done", 200)


def a_state_machine(nodes: int, agents: int, pods: int) -> StateMachine:
    """Each agent's VM runs with the permit that it had before a restart; `pods` are pending."""
    state_machine = StateMachine(installed.POLICY, seed=1)

    def take(*events: Event) -> None:
        for event in events:
            state_machine.apply(event, Instant(0.0))

    take(*(NodeSeen(a_node(f"node-{number}", cpu="32", memory="128Gi")) for number in range(nodes)))
    permit = PersistedPermit(permit=_SMALL, permit_limit=_SMALL).text()
    for number in range(agents):
        name = f"vm-{number}"
        take(MachineSeen(Machine(key=PodKey("default", name), uid=f"machine-{name}", resource_version=1, permit=permit)))
        pod = a_pod(name, on=f"node-{number // AGENTS_ON_A_NODE}", version=1)
        take(PodSeen(structs.replace(pod, vertical=a_vertical(machine=name))))
    take(*(PodSeen(a_pod(f"p-{number}", version=1)) for number in range(pods)), Synced())
    return state_machine


async def _serve(nodes: int, agents: int, pods: int) -> None:
    registry, state_machine = CollectorRegistry(), a_state_machine(nodes, agents, pods)
    intake = Intake(state_machine, monotonic, {})
    dispatcher = Dispatcher(_ApiServer(), intake.take, installed.DISPATCHER, rng=Random(1))
    permit_service = PermitService(state_machine, dispatcher.submit_all, monotonic)
    intake.connect(dispatcher, permit_service.wake)
    listener = AgentsApp(
        permit_service=permit_service,
        readiness=intake,
        metrics=AgentMetrics(registry, lambda: state_machine.state.nodes.row_of),
    )
    extender = ExtenderApp(
        state_machine=state_machine,
        submitter=dispatcher,
        binds=permit_service,
        readiness=intake,
        decode_pod=PodDecoder(KindInterner()).decode,
        clock=monotonic,
        metrics=ExtenderMetrics(registry),
        max_body_bytes=64 << 20,
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    async with anyio.create_task_group() as group:
        await group.start(dispatcher.run)
        group.start_soon(intake.run)
        socks = {name: listen(name, "127.0.0.1", 0) for name in ("agents", "extender", "echo")}
        await group.start(serve_direct, listener, socks["agents"], None)
        await group.start(serve_direct, extender, socks["extender"], None)
        await group.start(serve_direct, Echo(), socks["echo"], None)
        ports = {name: sock.getsockname()[1] for name, sock in socks.items()}
        print(json.dumps(ports), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        group.cancel_scope.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("nodes", "agents", "pods"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args()
    # Nobody reads more of the standard output than the ports: warnings would fill the pipe, and then stop the server.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    anyio.run(_serve, asked.nodes, asked.agents, asked.pods, backend_options={"use_uvloop": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
