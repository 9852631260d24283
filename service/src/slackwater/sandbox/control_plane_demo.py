"""`slackwater demo --control-plane`: a real control plane on this machine, the service in this process, a small workload."""

import sys
from functools import partial
from random import Random
from typing import Any, Final

import aiohttp
import anyio
import anyio.to_thread
from rich.console import Console

from slackwater.app import rbac
from slackwater.app.process import Running, serve
from slackwater.app.progress import Progress, shown
from slackwater.app.schedulerconfig import generate
from slackwater.app.settings import Settings
from slackwater.sandbox.controlplane.build import Binaries, build
from slackwater.sandbox.controlplane.ports import FreePorts
from slackwater.sandbox.controlplane.progress import shown_on
from slackwater.sandbox.controlplane.stack import ControlPlane
from slackwater.sandbox.demo_script import POOL, Workload, demo_settings

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


async def run_real_demo(*, nodes: int, pods: int, duration_seconds: float | None, record: str | None = None) -> None:
    """Until Ctrl-C, SIGTERM, or `duration_seconds` after everything is up. `record`: a file for decisions."""
    console = Console(file=sys.stderr)
    console.print("Building the control plane (some minutes the first time, then cached)")
    with shown_on(sys.stderr) as building:
        binaries = await anyio.to_thread.run_sync(partial(build, building), abandon_on_cancel=True)
    with shown() as progress:
        tell_step(console, progress, "Starting etcd, kube-apiserver and KWOK")
        await _run(console, progress, binaries, nodes=nodes, pods=pods, duration_seconds=duration_seconds, record=record)
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
) -> None:
    async with ControlPlane(binaries) as cp, cp.session() as api, anyio.create_task_group() as group:
        settings = demo_settings(FreePorts(Random()).take, record)
        await _grant(api, settings)

        async def present(running: Running) -> None:
            tell_step(console, progress, "Starting kube-scheduler with the generated configuration, and the workload")
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


def tell_step(console: Console, progress: Progress, what: str) -> None:
    """On a terminal as a line that shows for how long already; elsewhere for good."""
    if not console.is_terminal:
        console.print(what)
    progress.step(what)


async def _grant(api: aiohttp.ClientSession, settings: Settings) -> None:
    """What `slackwater config rbac` prints for these settings."""
    account = rbac.user("slackwater")
    await _send(api, "POST", f"{_RBAC}/clusterroles", rbac.cluster_role(settings))
    await _send(api, "POST", f"{_RBAC}/clusterrolebindings", rbac.cluster_role_binding(account))
    for role in (rbac.record_role(settings), rbac.status_role(settings)):
        assert role is not None
        path = f"{_RBAC}/namespaces/{role['metadata']['namespace']}"
        await _send(api, "POST", f"{path}/roles", role)
        await _send(api, "POST", f"{path}/rolebindings", rbac.role_binding(role, account))


def _explain(console: Console, settings: Settings, cp: ControlPlane, running: Running) -> None:
    ops = f"http://{settings.listeners.ops.address}"
    console.print(f"""
Slackwater decides for {len(running.state_machine.nodes)} nodes; a real kube-scheduler places the pods through it.

  dashboard   {ops}/              every node as a bar: Reserved, Watermark, what is held
  dumpstate   {ops}/dumpstate     the whole state as JSON (or: slackwater dumpstate --url {ops})
  metrics     {ops}/metrics       slackwater_extender_requests_total, slackwater_filter_verdicts_total ...
  status      {ops}/statusz

  kubectl     --kubeconfig {cp.kubeconfig("admin")}
  logs        {cp.logs}

What to look at: pods come and go, and the bars with them. The pods "large-..." fit no node that is there: within half a
minute group "{POOL}" has grown for them (kubectl get events, and ConfigMap slackwater-autoscaler-status in kube-system). The
pods "huge-..." ask for more than any node could have, and stay pending with the reason. Cordon a node or delete pods with
kubectl and watch the cluster state follow. Ctrl-C ends everything.
""", highlight=False, soft_wrap=True)  # fmt: skip


def report(console: Console, running: Running) -> None:
    event_counts = running.state_machine.event_counts
    console.print(
        f"{event_counts.confirmed} pods bound and seen, {event_counts.attempts} attempts, {event_counts.failures} failures, "
        f"{int(event_counts.bind_refusals.sum())} binds refused, {event_counts.over_total} over Total"
    )


async def _send(api: aiohttp.ClientSession, method: str, path: str, body: Any) -> None:
    async with api.request(method, path, json=body) as answer:
        if answer.status >= 300 and not (method == "DELETE" and answer.status == 404):
            raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
