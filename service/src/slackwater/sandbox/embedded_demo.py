"""`slackwater demo`: runs the embedded cluster and the service in this process, with virtual machines that grow, and a
workload.

This module connects the embedded cluster to the service's adapters: it is the API server for `adapters.kube`, and its scheduler
calls `adapters.http`. Requests are passed on unchanged; tests that lose or delay requests wrap these functions.
"""

import math
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console

from slackwater.adapters.api_calls import ApiPort, Call, Params, Response
from slackwater.adapters.http.application import Answer, Application, Request
from slackwater.adapters.kube.errors import refused
from slackwater.app.process import serve
from slackwater.app.progress import shown
from slackwater.app.settings import Settings
from slackwater.app.wiring import Service
from slackwater.ports.clock import unix_time
from slackwater.sandbox.demo_script import NAMESPACE, Workload, demo_settings, what_to_look_at
from slackwater.sandbox.embedded.agents import AgentBehavior, Agents, AskPermit, a_machine
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.extender_client import Ask
from slackwater.sandbox.embedded.faults import Fault
from slackwater.sandbox.embedded.kinds import MACHINES
from slackwater.sandbox.embedded.scheduler import Scheduler
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.free_ports import FreePorts

_EXTENDER: Final = "/scheduler/"


class EmbeddedApi:
    """Passes the requests of the service to the embedded API server. Implements `adapters.api_calls.ApiPort`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, call: Call) -> Response:
        await anyio.lowlevel.checkpoint()
        return answered_by(self._server, call)

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        try:
            async with aclosing(self._server.watch(path, params=params)) as arriving:
                async for lines in arriving:
                    yield lines
        except Fault as fault:
            raise refused(f"watch {path}", fault.answer()) from fault


def answered_by(server: ApiServer, call: Call) -> Response:
    """The API server's answer to a call."""
    return server.request(call.method, call.path, params=call.params, body=call.body, content_type=call.content_type)


async def answered(application: Application, request: Request) -> Answer:
    """The answer of a listener's application to one request, without a connection."""
    found = application.answer(request)
    return await found if isinstance(found, Awaitable) else found


def asking(extender: Callable[[], Application]) -> Ask:
    """Makes the function by which the embedded scheduler calls the extender. `extender` returns the application at the time of
    each call."""

    async def ask(verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await answered(extender(), Request("POST", _EXTENDER + verb, body))
        return answer.status, answer.body

    return ask


_N_MACHINES: Final = 12
#: How long the service runs after the demo's clients have ended, so that the last writes can end.
_QUIET_SECONDS: Final = 0.5
#: The smallest and largest number of compute units of a machine, and the period of its load in seconds.
_LOW, _HIGH, _PERIOD_SECONDS = 1, 16, 60.0


async def run_sandbox_demo(
    *, nodes: int, pods: int, duration_seconds: float | None, record: str | None = None, port: int | None = None
) -> None:
    """Runs the demo until Ctrl-C, SIGTERM, or `duration_seconds` after everything is ready. `record`: the file to which
    decisions are recorded. `port`: that of the dashboard."""
    console = Console(file=sys.stderr)
    with shown() as progress:
        progress.step("starting the sandbox cluster and the service")
        started_at = time.monotonic()
        # Security: only for UIDs and delays of the simulated cluster.
        rng = Random()
        sandbox = Sandbox(rng=rng, wall=unix_time)
        settings = demo_settings(FreePorts(rng).take, record, port=port)
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.run, name="sandbox")
            actors = await group.start(_hold, name="actors")

            async def present(running: Service) -> None:
                scheduler = Scheduler(
                    sandbox.api, sandbox.timers, asking(lambda: running.extender), rng=rng, binds=not settings.extender.bind
                )
                scheduler.attach()
                actors.start_soon(scheduler.run, name="scheduler")
                progress.step(f"creating {nodes} nodes, {pods} pods and {_N_MACHINES} machines")
                workload = Workload(partial(send, sandbox.api), nodes, pods)
                await workload.create()
                for number in range(_N_MACHINES):
                    path = f"{MACHINES.prefix}/namespaces/{NAMESPACE}/{MACHINES.plural}"
                    await send(sandbox.api, "POST", path, a_machine(f"machine-{number:02}", low=_LOW, high=_HIGH, use=_LOW))
                agents = Agents(sandbox.api, _permits(running), rng, AgentBehavior(wants=_wanted))
                actors.start_soon(agents.run, name="agents")
                actors.start_soon(workload.churn, name="workload")
                progress.clear()
                _explain(console, settings, running, time.monotonic() - started_at)
                if duration_seconds is not None:
                    await anyio.sleep(duration_seconds)
                    report(console, running)
                    actors.cancel_scope.cancel()  # the agents and the scheduler end before the service
                    await anyio.sleep(_QUIET_SECONDS)
                    group.cancel_scope.cancel()

            await serve(settings, config_path=None, kubeconfig=None, api=_open(sandbox.api), on_ready=present)
            group.cancel_scope.cancel()
    console.print("Everything stopped.")


async def _hold(*, task_status: TaskStatus[TaskGroup]) -> None:
    """Opens a task group, so that its tasks can be cancelled before the others. Passes it to `task_status`."""
    async with anyio.create_task_group() as group:
        task_status.started(group)
        await anyio.sleep_forever()


@asynccontextmanager
async def _open(server: ApiServer) -> AsyncIterator[ApiPort]:
    yield EmbeddedApi(server)


def _permits(running: Service) -> AskPermit:
    async def ask(body: bytes) -> tuple[int, bytes]:
        answer = await answered(running.agents, Request("POST", "/", body))
        return answer.status, answer.body

    return ask


def _wanted(machine: str, now: float) -> int:
    """The compute units that a machine wants at the time `now`: they rise and fall, at another time for each machine."""
    phase = int(machine.rpartition("-")[2]) / _N_MACHINES
    return round(_HIGH / 2 * (1 + math.sin(math.tau * (now / _PERIOD_SECONDS + phase))))


async def send(server: ApiServer, method: str, path: str, body: Any) -> Any:
    answer = server.request(method, path, body=msgspec.json.encode(body))
    if answer.status == 404 and method in {"GET", "DELETE"}:
        return None
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {answer.body.decode()}")
    return msgspec.json.decode(answer.body)


def _explain(console: Console, settings: Settings, running: Service, seconds: float) -> None:
    ops = f"http://{settings.listeners.ops.address}"
    n_nodes = len(running.state_machine.state.nodes)
    console.print(f"""
Ready after {seconds:.1f} s: {n_nodes} nodes of a sandbox cluster inside this process.
{what_to_look_at(ops)}
  Permits     {_N_MACHINES} virtual machines grow and shrink within a minute

There is no kubectl for it. In a clone of the repository,
`make demo CONTROL_PLANE=real` runs a real control plane.
  extender    http://{settings.listeners.extender.address}/scheduler
  agents      http://{settings.listeners.agents.address}
Ctrl-C ends everything.
""", highlight=False, soft_wrap=True)  # fmt: skip


def report(console: Console, running: Service) -> None:
    """Prints what a demo that ends by itself has done."""
    event_counts = running.state_machine.state.event_counts
    console.print(
        f"{event_counts.confirmed} pods bound and seen, {event_counts.attempts} attempts, {event_counts.failures} failed, "
        f"{int(event_counts.bind_refusals.sum())} refused, {event_counts.over_total} over Total"
    )
