"""The agents' and the extender's listener in one process and on one event loop, as in the service, without an API server.

Beside them an echo that reads nothing. Prints the ports as JSON once all listen; ends when its input ends. The desk is that of
the tests.
"""

import argparse
import gc
import json
import sys
from collections.abc import Sequence

import anyio
import anyio.to_thread
from prometheus_client import CollectorRegistry

from slackwater.edge.kube.decode import PodDecoder
from slackwater.edge.web.agent_metrics import AgentMetrics
from slackwater.edge.web.agents import Agents
from slackwater.edge.web.extender import Extender
from slackwater.edge.web.extender_metrics import ExtenderMetrics
from slackwater.edge.web.serving import listen, serve_app, serve_direct
from slackwater.model.effects import Effect
from slackwater.model.events import NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.model.kinds import KindInterner
from slackwater.run.clock import monotonic
from slackwater.run.dispatcher import Ticket
from slackwater.world.policy import Policy
from slackwater.world.world import World
from tests.bench.echo_server import echo
from tests.support.builders import a_node, a_pod
from tests.support.desk import UNIT, FormulaDesk, amounts

#: VMs of one node: 1 CPU and 4 GiB each, and twice as much room.
AGENTS_ON_A_NODE = 20


class _Ready:
    ready = True
    unlisted: Sequence[str] = ()


class _NoWrites:
    """Nothing is bound here."""

    def submit(self, effect: Effect) -> Ticket:
        raise AssertionError(effect)


def a_desk(agents: int) -> FormulaDesk:
    desk = FormulaDesk(remember=False)
    for number in range(agents):
        node = f"node-{number // AGENTS_ON_A_NODE}"
        if number % AGENTS_ON_A_NODE == 0:
            desk.has_node(node, milli_cpu=AGENTS_ON_A_NODE * 2000, memory=AGENTS_ON_A_NODE * (8 << 30))
        desk.has_pod(f"vm-{number}", on=node, reserved=amounts(1000, 4 << 30))
    return desk


def a_world(nodes: int, pods: int) -> World:
    world = World(Policy(), seed=1)
    for number in range(nodes):
        world.apply(NodeSeen(a_node(f"node-{number}", cpu="32", memory="128Gi")), Instant(0.0))
    for number in range(pods):
        world.apply(PodSeen(a_pod(f"p-{number}", version=1)), Instant(0.0))
    world.apply(Synced(), Instant(0.0))
    return world


async def _serve(nodes: int, agents: int, pods: int) -> None:
    registry = CollectorRegistry()
    unit = UNIT
    listener = Agents(desk=a_desk(agents), readiness=_Ready(), default_unit=lambda: unit, metrics=AgentMetrics(registry))
    extender = Extender(
        world=a_world(nodes, pods),
        submitter=_NoWrites(),
        readiness=_Ready(),
        decode_pod=PodDecoder(KindInterner()).decode,
        clock=monotonic,
        metrics=ExtenderMetrics(registry),
        max_body_bytes=64 << 20,
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    async with anyio.create_task_group() as group:
        socks = {name: listen(name, "127.0.0.1", 0) for name in ("agents", "extender", "echo")}
        await group.start(serve_app, listener, socks["agents"], None)
        await group.start(serve_direct, extender, socks["extender"], None)
        await group.start(serve_app, echo, socks["echo"], None)
        ports = {name: sock.getsockname()[1] for name, sock in socks.items()}
        print(json.dumps(ports), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        group.cancel_scope.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("nodes", "agents", "pods"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args()
    anyio.run(_serve, asked.nodes, asked.agents, asked.pods, backend_options={"use_uvloop": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
