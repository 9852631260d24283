"""A cloud on virtual time, behind `ports.protocols.NodeProvider`: what goes wrong in real ones can be asked for.

Time is what `now` says; no call waits. A machine's life is settled when it is asked for: when it runs, when its Node appears,
when that is ready, whether it comes at all. Tests read the Nodes that are registered with `nodes`, and learn when to look again
with `next_at`. Deliberately absent: pods, and any rule of Kubernetes.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import structs

from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import (
    CLOUD_CHOOSES,
    NO_OPTIONS,
    GroupName,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceId,
    NodeGroup,
    VariantChoice,
)
from slackwater.model.objects import Node, Taint
from slackwater.ports.protocols import ProviderError, ProviderErrorKind
from slackwater_protocol.names import NODE_GROUP
from tests.support.builders import a_node

#: What `now` 0 is by the clock on the wall: 2026-01-01, when the builders' pods were created, and an hour.
BEGAN = 1767225600.0 + 3600.0

#: fine: as the delays say. failed: an error instead of a machine. silent: it runs, but no Node appears. unready: its Node never
#: gets ready. bare: its Node is ready, but lacks the scalars of the template until `equipped_after`: a driver is not up yet.
MachineOutcome = Literal["fine", "failed", "silent", "unready", "bare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds from the call on."""

    running_after: float = 20.0
    registered_after: float = 40.0
    ready_after: float = 50.0
    equipped_after: float = 120.0
    untainted_after: float = 150.0


@dataclass(slots=True, kw_only=True)
class Machine:
    """One machine, from the call that asked for it."""

    name: str
    asked_at: float
    boot_outcome: MachineOutcome
    error: InstanceError | None = None
    startup_taints: tuple[Taint, ...] = ()
    #: What its Node is like; None: like the template of its pool.
    template: Node | None = None
    #: Its Node as it was last looked at, and what that was made of: worlds of many nodes are looked at every second.
    made: tuple[tuple[object, ...], Node] | None = None

    @property
    def id(self) -> InstanceId:
        return InstanceId(f"cloud://{self.name}")


@dataclass(slots=True, kw_only=True)
class Pool:
    """A group. `stock`: so many machines there are to be had, the rest get the error. `quota`: a call beyond it is refused.
    `startup_taints`: what Nodes of machines asked for from now on carry beside the template's taints, until they are untainted.

    `fate` says what becomes of the nth machine (from 0) that was ever asked of the group. `promised`: what the provider says of
    new nodes, if they come different from that. `by_hand`: what somebody changed in the Node of a machine, by its name.
    """

    name: GroupName
    min_size: int
    max_size: int
    template: Node
    template_known: bool = True
    choice: VariantChoice = CLOUD_CHOOSES
    #: What the Node of the next machine is like, given the machines that are there; None: like the template.
    chooses: Callable[[Sequence["Machine"]], Node] | None = None
    promised: Node | None = None
    by_hand: dict[str, Callable[[Node], Node]] = field(default_factory=dict)
    delays: Delays = field(default_factory=Delays)
    stock: int | None = None
    quota: int | None = None
    startup_taints: tuple[Taint, ...] = ()
    options: GroupOptions = NO_OPTIONS
    undeletable: str = ""  #: why every deletion is refused; not told in advance if `tells` is False
    reports: bool = True
    unreadable: str = ""  #: why the provider cannot read the group, and refuses each change of it
    boot_outcome: Callable[[int], MachineOutcome] = lambda _: "fine"
    machines: list[Machine] = field(default_factory=list)
    asked: int = 0  #: machines ever asked for


@dataclass(frozen=True, slots=True)
class Call:
    """A change as it came, whatever became of it."""

    verb: Literal["grow", "lower", "delete"]
    group: GroupName
    seen: int
    to: int
    at: float
    instances: tuple[InstanceId, ...] = ()


OUT_OF_STOCK = InstanceError(kind="out-of-resources", code="STOCKOUT", message="no more of these machines in this zone")
BROKEN = InstanceError(kind="other", code="BOOT_FAILED", message="the machine did not start")


@dataclass
class Cloud:
    """The provider. `calls` is every change that was asked for, in order."""

    now: Callable[[], float]
    name: str = "cloud"
    calls: list[Call] = field(default_factory=list)
    _pools: dict[GroupName, Pool] = field(default_factory=dict)
    _refusals: deque[ProviderErrorKind] = field(default_factory=deque)
    _losses: deque[bool] = field(default_factory=deque)
    _broken: str | None = None

    # What the tests change.

    def has(self, name: str, *, size: int = 0, min_size: int = 0, max_size: int = 1000, template: Node | None = None) -> Pool:
        """Adds a group whose first `size` machines are up since long. What it returns may be changed."""
        like = a_node(f"template-of-{name}") if template is None else template
        pool = Pool(name=GroupName(name), min_size=min_size, max_size=max_size, template=like)
        self._pools[pool.name] = pool
        self._ask(pool, size, asked_at=self.now() - pool.delays.equipped_after)
        return pool

    def pool(self, name: str) -> Pool:
        return self._pools[GroupName(name)]

    def pool_names(self) -> list[str]:
        return sorted(self._pools)

    def refuse(self, kind: ProviderErrorKind, times: int = 1) -> None:
        """The next changes are refused, and do nothing."""
        self._refusals.extend([kind] * times)

    def lose_answers(self, times: int = 1, *, done: bool) -> None:
        """The answers to the next changes get lost, after (`done`) or before they were carried out."""
        self._losses.extend([done] * times)

    def breaks(self, why: str | None = "the cloud is down") -> None:
        """Until told otherwise (None), no question is answered and no change is made."""
        self._broken = why

    # What the tests look at.

    def nodes(self) -> list[Node]:
        """The Nodes that are registered now, by name."""
        return sorted((node for pool in self._pools.values() for node in self._registered(pool)), key=lambda node: node.name)

    def creating(self, name: str) -> int:
        """Machines of a group that are asked for and have no ready Node."""
        pool = self.pool(name)
        ages = ((machine, self.now() - machine.asked_at) for machine in pool.machines if _registers(machine))
        up = max(pool.delays.registered_after, pool.delays.ready_after)
        return len(pool.machines) - sum(machine.boot_outcome != "unready" and age >= up for machine, age in ages)

    def next_at(self) -> float | None:
        """When something changes by itself next; None where nothing will."""
        times = (when for pool in self._pools.values() for machine in pool.machines for when in _turns(pool, machine))
        return min((when for when in times if when > self.now()), default=None)

    # The provider.

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        assert timeout_seconds > 0
        if self._broken is not None:
            raise ProviderError("unknown", None, self._broken)
        return [self._shown(self._pools[name]) for name in sorted(self._pools)]

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        assert to > seen
        with self._change(Call("grow", group, seen, to, self.now())) as pool:
            _check(pool, seen)
            if to > pool.max_size:
                raise ProviderError("limit", group, f"got {to} nodes, want at most {pool.max_size}")
            if pool.quota is not None and to > pool.quota:
                raise ProviderError("quota", group, f"got {to} nodes, quota is {pool.quota}")
            self._ask(pool, to - seen, asked_at=self.now())

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        assert to < seen
        with self._change(Call("lower", group, seen, to, self.now())) as pool:
            _check(pool, seen)
            if to < pool.min_size:
                raise ProviderError("limit", group, f"got {to} nodes, want at least {pool.min_size}")
            pending = [machine for machine in pool.machines if not self._exists(pool, machine)]
            if len(pending) < seen - to:
                raise ProviderError("conflict", group, f"{seen - len(pending)} nodes exist, want at most {to}")
            for machine in pending[-(seen - to) :]:
                pool.machines.remove(machine)

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        assert timeout_seconds > 0
        ids = tuple(instance.id for instance in instances)
        with self._change(Call("delete", group, 0, 0, self.now(), ids)) as pool:
            elsewhere = {m.id for other in self._pools.values() if other is not pool for m in other.machines}
            if strangers := elsewhere.intersection(ids):
                raise ProviderError("conflict", group, f"{sorted(strangers)} are of another group")
            if pool.undeletable:
                raise ProviderError("other", group, pool.undeletable)
            left = [machine for machine in pool.machines if machine.id not in ids]
            gone = len(pool.machines) - len(left)
            if not replace and len(left) < min(len(pool.machines), pool.min_size):
                raise ProviderError("limit", group, f"{len(left)} nodes would be left, want at least {pool.min_size}")
            pool.machines[:] = left
            self._ask(pool, gone if replace else 0, asked_at=self.now())

    # How it is done.

    def _change(self, call: Call) -> "_Change":
        self.calls.append(call)
        if self._broken is not None:
            raise ProviderError("unknown", call.group, self._broken)
        if self._refusals:
            raise ProviderError(self._refusals.popleft(), call.group, "refused, as the test asked")
        if call.group not in self._pools:
            raise ProviderError("gone", call.group, "no such group")
        if why := self._pools[call.group].unreadable:
            raise ProviderError("other", call.group, why)
        lost = self._losses.popleft() if self._losses else None
        if lost is False:
            raise ProviderError("unknown", call.group, "no answer in time")
        return _Change(self._pools[call.group], lost=lost is True)

    def _ask(self, pool: Pool, count: int, *, asked_at: float) -> None:
        for _ in range(count):
            boot_outcome = pool.boot_outcome(pool.asked)
            error = BROKEN if boot_outcome == "failed" else None
            if pool.stock is not None and len(pool.machines) >= pool.stock:
                error = OUT_OF_STOCK
            name = f"{pool.name}-{pool.asked:04}".replace("/", "-")
            machine = Machine(
                name=name,
                asked_at=asked_at,
                boot_outcome=boot_outcome,
                error=error,
                startup_taints=pool.startup_taints,
                template=None if pool.chooses is None else pool.chooses(pool.machines),
            )
            pool.machines.append(machine)
            pool.asked += 1

    def _exists(self, pool: Pool, machine: Machine) -> bool:
        return machine.error is None and self.now() >= machine.asked_at + pool.delays.running_after

    def _shown(self, pool: Pool) -> NodeGroup:
        if pool.unreadable:
            name, why = pool.name, pool.unreadable
            return NodeGroup(name=name, provider=self.name, min_size=0, max_size=0, target=0, instances=(), unreadable=why)
        registered = {node.name for node in self._registered(pool)}
        return NodeGroup(
            name=pool.name,
            provider=self.name,
            min_size=pool.min_size,
            max_size=pool.max_size,
            target=len(pool.machines),
            instances=tuple(
                Instance(
                    id=machine.id,
                    state="running" if self._exists(pool, machine) else "creating",
                    node=NodeName(machine.name) if machine.name in registered else None,
                    error=machine.error,
                )
                for machine in pool.machines
            ),
            template=(pool.promised or pool.template) if pool.template_known else None,
            options=pool.options,
            undeletable=pool.undeletable if pool.reports else "",
            choice=pool.choice,
        )

    def _registered(self, pool: Pool) -> Iterator[Node]:
        for machine in pool.machines:
            age = self.now() - machine.asked_at
            if not _registers(machine) or age < pool.delays.registered_after:
                continue
            ready = machine.boot_outcome != "unready" and age >= pool.delays.ready_after
            template = machine.template or pool.template
            taints = (*template.taints, *(machine.startup_taints if age < pool.delays.untainted_after else ()))
            scalars = () if machine.boot_outcome == "bare" and age < pool.delays.equipped_after else template.scalars
            created = machine.asked_at + pool.delays.registered_after
            of = (ready, taints, scalars, created, template)
            if machine.made is None or machine.made[0] != of:
                node = structs.replace(
                    template,
                    name=NodeName(machine.name),
                    uid=f"uid-{machine.name}",
                    labels={**template.labels, "kubernetes.io/hostname": machine.name, NODE_GROUP: pool.name},
                    provider_id=machine.id,
                    ready=ready,
                    taints=taints,
                    created_at=UnixTime(BEGAN + created),
                    scalars=scalars,
                )
                machine.made = (of, pool.by_hand.get(machine.name, _unchanged)(node))
            yield machine.made[1]


def _unchanged(node: Node) -> Node:
    return node


def _registers(machine: Machine) -> bool:
    """Whether it ever gets a Node."""
    return machine.error is None and machine.boot_outcome != "silent"


@dataclass(slots=True)
class _Change:
    """A change under way; the answer of one that was carried out may get lost."""

    pool: Pool
    lost: bool

    def __enter__(self) -> Pool:
        return self.pool

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if self.lost and error is None:
            raise ProviderError("unknown", self.pool.name, "no answer in time")


def _check(pool: Pool, seen: int) -> None:
    if len(pool.machines) != seen:
        raise ProviderError("conflict", pool.name, f"the target is {len(pool.machines)}, not {seen}")


def _turns(pool: Pool, machine: Machine) -> Iterator[float]:
    delays = pool.delays
    for after in (
        delays.running_after,
        delays.registered_after,
        delays.ready_after,
        delays.equipped_after,
        delays.untainted_after,
    ):
        yield machine.asked_at + after
