"""Each side on a control plane of its own, ready for pods: Karpenter with its defaults, and Slackwater with the expander price.

Both have the same kube-scheduler profile, kube-controller-manager and KWOK, which makes the nodes of both ready.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import yaml

from slackwater.app.settings import Settings, loads
from slackwater.sandbox.free_ports import LOOPBACK
from tests.bench import contenders
from tests.bench.karpenter import program
from tests.bench.karpenter.inputs import VARIANTS, Json, instance_types, node_groups, node_pool
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, installed_service
from tests.bench.simulation.mixes import Variant
from tests.bench.stage import Stage, a_stage
from tests.cluster.support.audit_tail import AuditTail, Request
from tests.support.controlplane.component import Launch

_CRDS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LOOK_EVERY_SECONDS: Final = 0.2
#: In the stage's folder.
_TYPES: Final = "instance-types.json"
#: The first status of an answer that refuses.
_REFUSED: Final = 300
#: Which consolidationPolicy Karpenter has if none is said.
DEFAULT_POLICY: Final = "WhenEmptyOrUnderutilized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A running one. `pid`: of the process that decides. `ops`: where the service can be asked, "" if there is none."""

    stage: Stage
    pid: int
    ops: str = ""


Opener = Callable[[Sequence[Variant]], AbstractAsyncContextManager[Side]]


def consolidating(*, least_ratio: float = 0.5) -> Json:
    """Settings of consolidation that begins as soon as Karpenter with its defaults, which waits for 15 s before it does what it
    has found. `least_ratio`: `minSavingRatio`."""
    return {
        "scaleDown": {"unneededTime": "15s", "delayAfterAdd": "15s"},
        "consolidation": {"enabled": True, "interval": "10s", "minNodeAge": "0s", "minSavingRatio": least_ratio},
    }


@asynccontextmanager
async def karpenter(
    variants: Sequence[Variant] = VARIANTS,
    *,
    policy: str = DEFAULT_POLICY,
    beside: Settings | None = None,
    handed_over: bool = False,
) -> AsyncIterator[Side]:
    """Karpenter's controller with its default settings. `beside`: those of a service that may run beside it. `handed_over`: the
    NodePool is that service's, and no scheduler runs yet."""
    async with a_stage(kwok=True, controllers=True, settings=beside) as stage:
        if not handed_over:
            await stage.control_plane.start_scheduler(contenders.scheduler_config(None))
        await stage.create(_CRDS_PATH, program.crds())
        made = [(_path(each), each) for each in node_pool(policy, handed_over=handed_over)]
        for path, each in made:
            await _until(stage, path, lambda _: True)
            await stage.create(path, [each])
        async with stage.running(_launch(stage, variants)) as process:
            await _until(stage, f"{made[-1][0]}/default", _is_ready)
            yield Side(stage=stage, pid=process.pid)


@asynccontextmanager
async def slackwater(variants: Sequence[Variant] = VARIANTS, *, more: Json | None = None) -> AsyncIterator[Side]:
    """The installed service with the expander price. `more`: further settings of the autoscaler."""
    autoscaler = {"enabled": True, "expanders": ["price"], "nodeGroups": node_groups(variants), **(more or {})}
    text = yaml.safe_dump({"autoscaler": autoscaler})
    async with a_stage(kwok=True, controllers=True, settings=loads(contenders.HEADER + text)) as stage:
        entrant = contenders.service(stage, installed_service(), more=text)
        async with stage.running(entrant.launch) as process:
            await stage.control_plane.start_scheduler(contenders.scheduler_config(entrant))
            yield Side(stage=stage, pid=process.pid)


@asynccontextmanager
async def node_claims(
    variants: Sequence[Variant] = VARIANTS, *, more: Json | None = None, hopeless: str = ""
) -> AsyncIterator[Side]:
    """The installed service, which creates and deletes NodeClaims, beside Karpenter's controller, which serves them. Raises
    BenchFailed if Karpenter created one, or deleted one that the service had not. `hopeless`: a NodePool whose NodeClaims it
    cannot launch, and therefore deletes."""
    autoscaler = {"enabled": True, "expanders": ["price"], "providers": {"karpenter": {}}, **(more or {})}
    beside = loads(contenders.HEADER + yaml.safe_dump({"autoscaler": autoscaler}))
    async with karpenter(variants, beside=beside, handed_over=True) as side:
        stage, types = side.stage, {"instanceTypes": str(side.stage.folder / _TYPES)}
        audit = AuditTail(stage.control_plane.audit_log)
        text = yaml.safe_dump({"autoscaler": {**autoscaler, "providers": {"karpenter": types}}})
        entrant = contenders.service(stage, installed_service(), more=text)
        async with stage.running(entrant.launch) as process:
            await stage.control_plane.start_scheduler(contenders.scheduler_config(entrant))
            yield Side(stage=stage, pid=process.pid, ops=entrant.launch.url)
        if fought := list(_fought_over(audit.read(), hopeless)):
            raise BenchFailed(f"{len(fought)} NodeClaims were fought over: {', '.join(sorted(fought)[:5])}")


def _fought_over(requests: Iterable[Request], hopeless: str) -> Iterator[str]:
    """NodeClaims that somebody else created or deleted. Karpenter's kwok provider deletes once more what is being deleted."""
    ours: set[str] = set()
    for each in requests:
        if each.resource == "nodeclaims" and each.verb in ("create", "delete") and each.status < _REFUSED:
            if each.user == contenders.EXTENDER_USER:
                ours |= {each.name} if each.verb == "delete" else set()
            elif each.name not in ours and not (hopeless and each.verb == "delete" and each.name.startswith(f"{hopeless}-")):
                yield f"{each.verb} {each.name} by {each.user}"


def _launch(stage: Stage, variants: Sequence[Variant]) -> Launch:
    types = stage.folder / _TYPES
    types.write_text(json.dumps(instance_types(variants)))
    health, metrics = stage.ports.take(), stage.ports.take()
    environment = {
        "KUBECONFIG": stage.control_plane.kubeconfig("admin"),
        "INSTANCE_TYPES_FILE_PATH": types,
        "HEALTH_PROBE_PORT": health,
        "METRICS_PORT": metrics,
        # Alone, it need not wait for a Lease.
        "DISABLE_LEADER_ELECTION": "true",
    }
    launch = Launch(
        name="karpenter",
        program=program.build(),
        arguments=(),
        url=f"http://{LOOPBACK}:{health}",
        ready_paths=("/readyz",),
    )
    return launch.run_by(["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items())])


def _path(item: Json) -> str:
    return f"/apis/{item['apiVersion']}/{item['kind'].lower()}{'es' if item['kind'].endswith('s') else 's'}"


def _is_ready(item: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in item.get("status", {}).get("conditions", ()))


async def _until(stage: Stage, path: str, holds: Callable[[Json], bool]) -> None:
    """Until the API server has what is at the path, and it is so. TimeoutError."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while True:
            async with stage.api.get(path) as answer:
                if answer.status == 200 and holds(await answer.json()):
                    return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
