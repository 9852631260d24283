"""`make demo CONTROL_PLANE=real`: runs a real control plane on this machine, the service in this process, and a small
workload."""

import argparse
import sys
from functools import partial
from random import Random
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
from rich.console import Console

from slackwater.app import rbac
from slackwater.app.process import serve
from slackwater.app.progress import Progress, shown
from slackwater.app.scheduler_config.generate import generate
from slackwater.app.settings import Settings
from slackwater.app.wiring import Service
from slackwater.cli.commands import demo
from slackwater.cli.commands.output import INTERRUPTED, CommandFailed
from slackwater.sandbox.demo_script import Workload, demo_settings, what_to_look_at
from slackwater.sandbox.demo_stories import URGENT, URGENT_PRIORITY
from slackwater.sandbox.embedded_demo import report
from slackwater.sandbox.free_ports import FreePorts, NoFreePort
from tests.support.controlplane.build import Binaries, build
from tests.support.controlplane.errors import ControlPlaneError
from tests.support.controlplane.progress import shown_on
from tests.support.controlplane.recipe import version_of
from tests.support.controlplane.stack import ControlPlane


async def run_real_demo(
    *,
    nodes: int,
    pods: int,
    duration_seconds: float | None,
    record: str | None = None,
    port: int | None = None,
    kubernetes: str | None = None,
) -> None:
    """Runs the demo until Ctrl-C, SIGTERM, or `duration_seconds` after everything is ready. `record`: the file to which
    decisions are recorded. `port`: that of the dashboard. `kubernetes`: the control plane's version; None: the recipe's
    default."""
    console = Console(file=sys.stderr)
    console.print("Building the control plane (some minutes the first time, then cached)")
    with shown_on(sys.stderr) as building:
        binaries = await anyio.to_thread.run_sync(partial(build, building, kubernetes=kubernetes), abandon_on_cancel=True)
    with shown() as progress:
        show_step(console, progress, "Starting etcd, kube-apiserver and KWOK")
        await _run(
            console, progress, binaries, nodes=nodes, pods=pods, duration_seconds=duration_seconds, record=record, port=port
        )
    console.print("Everything stopped.")


async def _run(
    console: Console,
    progress: Progress,
    binaries: Binaries,
    *,
    nodes: int,
    pods: int,
    duration_seconds: float | None,
    record: str | None,
    port: int | None,
) -> None:
    # The controller manager is needed, because its disruption controller computes the status of PodDisruptionBudgets.
    async with ControlPlane(binaries, controllers=True) as cp, cp.session() as api, anyio.create_task_group() as group:
        settings = demo_settings(FreePorts(Random()).take, record, port=port)
        await _grant(api, settings)
        await _send(api, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", _priority_class())

        async def present(running: Service) -> None:
            show_step(console, progress, "Starting kube-scheduler with the generated configuration, and the workload")
            await cp.start_scheduler(generate(settings, kubeconfig=str(cp.kubeconfig("scheduler")), extender_url=None))
            workload = Workload(partial(_send, api), nodes, pods)
            await workload.create()
            group.start_soon(workload.churn, name="workload")
            progress.clear()
            _explain(console, settings, cp, running)
            if duration_seconds is not None:
                await anyio.sleep(duration_seconds)
                report(console, running)
                group.cancel_scope.cancel()

        await serve(settings, config_path=None, kubeconfig=str(cp.kubeconfig("slackwater")), on_ready=present)
        group.cancel_scope.cancel()


def show_step(console: Console, progress: Progress, what: str) -> None:
    """Shows a step: on a terminal as a line with the time passed, elsewhere as a printed line."""
    if not console.is_terminal:
        console.print(what)
    progress.step(what)


async def _grant(api: aiohttp.ClientSession, settings: Settings) -> None:
    """Creates the roles that `slackwater config rbac` prints for these settings."""
    for item in rbac.rights(settings, rbac.user("slackwater")):
        await _send(api, "POST", rbac.collection_path(item), item)


def _priority_class() -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT},
        "value": URGENT_PRIORITY,
    }


def _explain(console: Console, settings: Settings, cp: ControlPlane, running: Service) -> None:
    ops = f"http://{settings.listeners.ops.address}"
    console.print(f"""
{len(running.state_machine.state.nodes)} nodes; a real kube-scheduler places the pods through Slackwater.
{what_to_look_at(ops)}

  kubectl     --kubeconfig {cp.kubeconfig("admin")}
  logs        {cp.logs}

Cordon a node or delete pods with kubectl and watch the dashboard follow.
Ctrl-C ends everything.
""", highlight=False, soft_wrap=True)  # fmt: skip


async def _send(api: aiohttp.ClientSession, method: str, path: str, body: Any) -> Any:
    async with api.request(method, path, json=body) as answer:
        if answer.status == 404 and method in {"GET", "DELETE"}:
            return None
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
        return await answer.json()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo CONTROL_PLANE=real DEMO_ARGS=...", description=__doc__)
    demo.add_options(parser)
    parser.add_argument("--kubernetes", metavar="X", help=f"version of the control plane (default: {version_of()})")
    args = parser.parse_args()
    try:
        return demo.play(partial(run_real_demo, kubernetes=args.kubernetes), args, ControlPlaneError, NoFreePort)
    except CommandFailed as failed:
        print(*failed.lines, sep="\n", file=sys.stderr)
        return failed.code
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
