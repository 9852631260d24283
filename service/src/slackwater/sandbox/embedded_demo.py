"""`slackwater demo`: the embedded sandbox cluster and the service in this process, with machines that grow, and a workload."""

import math
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console

from slackwater.adapters.http.http_server import Request
from slackwater.adapters.kube.client import ApiPort
from slackwater.app.process import Running, serve
from slackwater.app.progress import Progress, shown
from slackwater.app.settings import Settings
from slackwater.ports.clock import unix_time
from slackwater.sandbox.control_plane_demo import report
from slackwater.sandbox.controlplane.ports import FreePorts
from slackwater.sandbox.demo_script import NAMESPACE, POOL, Workload, demo_settings
from slackwater.sandbox.embedded.agents import Agents, AskPermit, Habits, a_machine
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.kinds import MACHINES
from slackwater.sandbox.embedded.scheduler import Scheduler
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.in_process import EmbeddedApi, answered, asking

_N_MACHINES: Final = 12
#: What was asked last is written by then.
_QUIET_SECONDS: Final = 0.5
#: Compute units of a machine, and the seconds in which its load rises and falls.
_LOW, _HIGH, _PERIOD_SECONDS = 1, 16, 60.0


async def run_sandbox_demo(*, nodes: int, pods: int, duration_seconds: float | None, record: str | None = None) -> None:
    """Until Ctrl-C, SIGTERM, or `duration_seconds` after everything is up. `record`: a file for decisions."""
    console = Console(file=sys.stderr)
    with shown() as progress:
        progress.step("starting the sandbox cluster and the service")
        await _run(console, progress, nodes=nodes, pods=pods, duration_seconds=duration_seconds, record=record)
    console.print("Everything stopped.")


async def _run(
    console: Console, progress: Progress, *, nodes: int, pods: int, duration_seconds: float | None, record: str | None
) -> None:
    started_at = time.monotonic()
    # Security: UIDs and paces of a cluster that is not there.
    rng = Random()
    sandbox = Sandbox(rng=rng, wall=unix_time)
    settings = demo_settings(FreePorts(rng).take, record)
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.run, name="sandbox")
        actors = await group.start(_hold, name="actors")

        async def present(running: Running) -> None:
            scheduler = Scheduler(
                sandbox.api, sandbox.agenda, asking(lambda: running.extender), rng=rng, binds=not settings.extender.bind
            )
            scheduler.attach()
            actors.start_soon(scheduler.run, name="scheduler")
            progress.step(f"creating {nodes} nodes, {pods} pods and {_N_MACHINES} machines")
            workload = Workload(partial(_send, sandbox.api), nodes, pods)
            await workload.create()
            for number in range(_N_MACHINES):
                path = f"{MACHINES.prefix}/namespaces/{NAMESPACE}/{MACHINES.plural}"
                await _send(sandbox.api, "POST", path, a_machine(f"machine-{number:02}", low=_LOW, high=_HIGH, use=_LOW))
            agents = Agents(sandbox.api, _permits(running), rng, Habits(wants=_wanted))
            actors.start_soon(agents.run, name="agents")
            actors.start_soon(workload.churn, name="workload")
            progress.clear()
            _explain(console, settings, running, time.monotonic() - started_at)
            if duration_seconds is not None:
                await anyio.sleep(duration_seconds)
                report(console, running)
                actors.cancel_scope.cancel()  # nobody asks who is not answered any more
                await anyio.sleep(_QUIET_SECONDS)
                group.cancel_scope.cancel()

        await serve(settings, config_path=None, kubeconfig=None, api=_open(sandbox.api), on_ready=present)
        group.cancel_scope.cancel()


async def _hold(*, task_status: TaskStatus[TaskGroup]) -> None:
    """A group of tasks that may end before the rest."""
    async with anyio.create_task_group() as group:
        task_status.started(group)
        await anyio.sleep_forever()


@asynccontextmanager
async def _open(server: ApiServer) -> AsyncIterator[ApiPort]:
    yield EmbeddedApi(server)


def _permits(running: Running) -> AskPermit:
    async def ask(body: bytes) -> tuple[int, bytes]:
        answer = await answered(running.agents, Request("POST", "/", body))
        return answer.status, answer.body

    return ask


def _wanted(machine: str, now: float) -> int:
    """A load that rises and falls, each machine's at another time."""
    phase = int(machine.rpartition("-")[2]) / _N_MACHINES
    return round(_HIGH / 2 * (1 + math.sin(math.tau * (now / _PERIOD_SECONDS + phase))))


async def _send(server: ApiServer, method: str, path: str, body: Any) -> None:
    answer = server.request(method, path, body=msgspec.json.encode(body))
    if answer.status >= 300 and not (method == "DELETE" and answer.status == 404):
        raise RuntimeError(f"{method} {path}: {answer.status} {answer.body.decode()}")


def _explain(console: Console, settings: Settings, running: Running, seconds: float) -> None:
    ops, agents = f"http://{settings.listeners.ops.address}", f"http://{settings.listeners.agents.address}"
    n_nodes = len(running.state_machine.nodes)
    console.print(f"""
Ready after {seconds:.1f} s. Slackwater decides for {n_nodes} nodes of a sandbox cluster inside this process.

  dashboard   {ops}/              every node as a bar: Reserved, Watermark, what is held
  dumpstate   {ops}/dumpstate     the whole state as JSON (or: slackwater dumpstate --url {ops})
  metrics     {ops}/metrics       slackwater_extender_requests_total, slackwater_filter_verdicts_total ...
  status      {ops}/statusz
  extender    http://{settings.listeners.extender.address}/scheduler
  agents      {agents}

What to look at: pods come and go, and the bars with them. {_N_MACHINES} virtual machines grow and shrink within a minute, as
their agents are permitted. The pods "large-..." fit no node that is there: within half a minute group "{POOL}" has grown for
them. The pods "huge-..." ask for more than any node could have, and stay pending. It is a sandbox: there is no kubectl for it
(`slackwater demo --control-plane` runs a real control plane). Ctrl-C ends everything.
""", highlight=False, soft_wrap=True)  # fmt: skip
