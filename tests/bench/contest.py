"""One contender's run: a fresh control plane, a backlog, the extender, and the scheduler last; who bound, and at whose cost.

KWOK may run beside it: the status that kubelets write is what an extender's watch has to digest. But it takes its cores from
the contenders, and more of them the more nodes there are.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio

from tests.bench import contenders
from tests.bench.bindlog import BindLog
from tests.bench.contenders import Entrant
from tests.bench.options import PATIENCE_SECONDS, BenchFailed
from tests.bench.procstat import cpu_seconds
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage, a_stage
from tests.support.controlplane.component import Component

_LOOK_EVERY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A run that has begun. `entrant` and `extender` are None for kube-scheduler alone."""

    stage: Stage
    entrant: Entrant | None
    extender: Component | None
    log: BindLog
    before: Mapping[int, tuple[str, float]]  #: by process, its name and the CPU seconds it had spent

    def spent(self) -> dict[str, float]:
        """CPU seconds of each process since the scheduler's start."""
        return {name: cpu_seconds(pid) - seconds for pid, (name, seconds) in self.before.items()}

    async def until_bound(self, pods: int) -> None:
        """Raises BenchFailed if it takes too long."""
        bound = 0
        with anyio.move_on_after(PATIENCE_SECONDS):
            while True:
                bound = self.log.read_on()
                if bound >= pods:
                    return
                if self.extender is not None:
                    self.extender.check()
                await anyio.sleep(_LOOK_EVERY_SECONDS)
        raise BenchFailed(f"{bound} pods bound in {PATIENCE_SECONDS:g} s, want {pods}")


@asynccontextmanager
async def a_contest(
    choose: Callable[[Stage], Entrant | None],
    *,
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    before: Callable[[Entrant], Awaitable[None]] | None = None,
    kwok: bool = True,
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[Contest]:
    """The pods wait, and the scheduler has just started; `before` it the extender may have been given time. `edit` may change
    the scheduler's configuration. Without `kwok` nodes have to be ready as they are made."""
    async with a_stage(kwok=kwok) as stage, AsyncExitStack() as stack:
        await stage.create(NODES_PATH, nodes)
        await stage.until_nodes_ready()
        await stage.create(PODS_PATH, pods)
        entrant = choose(stage)
        pids = {stage.control_plane.pid(name): name for name in stage.control_plane.running()}
        extender = None if entrant is None else await stack.enter_async_context(stage.running(entrant.launch))
        if extender is not None:
            pids[extender.pid] = "extender"
        if entrant is not None and before is not None:
            await before(entrant)
        spent = {pid: (name, cpu_seconds(pid)) for pid, name in pids.items()}
        await stage.control_plane.start_scheduler(contenders.scheduler_config(entrant, edit))
        spent[stage.control_plane.pid("kube-scheduler")] = "kube-scheduler", 0.0
        log = BindLog(stage.control_plane.audit_log)
        yield Contest(stage=stage, entrant=entrant, extender=extender, log=log, before=spent)
