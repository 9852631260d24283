"""A `NodeProvider` over Karpenter's NodePools: creates NodeClaims of the variant that a plan chose, and deletes them by name.

A group's target is the number of its NodeClaims that are not being deleted, and of those that Karpenter gave up before they
had a node. Karpenter deletes a NodeClaim that cannot be launched, so `KarpenterProvider` remembers each that has no node yet.
If one vanishes, it is reported as failed, with the reason of Karpenter's Event, until it is deleted here.

A NodePool that cannot be read is left out alone: its groups stay, as unreadable ones, and a group of its name says why. Of a
NodeClaim whose amounts or conditions cannot be read the rest counts, and a group of its name says so too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import anyio
import msgspec
import structlog

from slackwater.adapters.api_calls import ApiCalls, ApiReads
from slackwater.adapters.cloud.apiserver import Undecoded, bounded, check_growth, check_lowering, each, repeated
from slackwater.adapters.cloud.karpenter import objects
from slackwater.adapters.cloud.karpenter.instance_types import Offering
from slackwater.adapters.cloud.karpenter.objects import ClaimWire, PoolWire
from slackwater.adapters.cloud.karpenter.pools import (
    Limits,
    VariantId,
    claim_body,
    claim_name,
    is_leaving,
    is_static,
    limits_of,
    offerings_of,
    options_of,
    read_variant_id,
    rule_of,
    shown_by,
    still_karpenters,
    template_of,
    variant_of,
    variants,
)
from slackwater.adapters.cloud.read_groups import unreadable_group
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import (
    GroupName,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceErrorKind,
    InstanceId,
    NodeGroup,
    choice_of_provider,
)
from slackwater.model.objects import NODE_POOL
from slackwater.ports.protocols import ProviderError

_log = structlog.get_logger(__name__)

#: NodeClaims that one call creates or deletes at the same time.
_WIDTH: Final = 8
#: Variants of all NodePools together. Plans estimate each. NodePools with the most are left out first.
MOST_VARIANTS: Final = 2_000
#: Vanished NodeClaims whose Events one scan reads.
_MOST_ASKED: Final = 20
#: The reason of a condition that Karpenter has not looked at yet.
_UNTRIED: Final = frozenset({"", "AwaitingReconciliation"})
_GONE: Final = InstanceError(
    kind="other", code="NodeClaimDeleted", message="the NodeClaim was deleted before it had a node; Karpenter's log says why"
)


@dataclass(slots=True)
class _Vanished:
    """A NodeClaim of the group that was deleted before it had a node, and not by us. `error`: None until it is known."""

    group: GroupName
    error: InstanceError | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _PoolState:
    """A NodePool as it was read, with its variants, the NodeClaims of each, and what is left of its limits. `owner`: what
    Karpenter still does with it. `meets`: whether new nodes of an offering meet its requirements, unlike perhaps older ones."""

    pool: PoolWire
    variants: Mapping[VariantId, Offering]
    by_variant: Mapping[VariantId, Sequence[ClaimWire]]
    limits: Limits
    options: GroupOptions
    owner: str
    meets: Callable[[Offering], bool]


class KarpenterGroups:
    """Implements `ports.protocols.GroupReader`. `offerings`: those of the file of instance types. `wanted`: names of the
    NodePools that are used; none: all."""

    name: Final = "karpenter"

    def __init__(self, api: ApiReads, offerings: Iterable[Offering] = (), *, wanted: Iterable[str] = ()) -> None:
        self._reads = api
        self._offerings = tuple(offerings)
        self._wanted = frozenset(wanted)
        #: The offerings of each NodePool, and the template that they are for.
        self._offered: dict[str, tuple[bytes, Mapping[VariantId, Offering]]] = {}
        #: By the NodeClaim's name.
        self._vanished: dict[str, _Vanished] = {}
        #: The NodePools that were handed over, and the variants of each, when it could be read.
        self._handed_over: frozenset[str] = frozenset()
        self._variants: dict[str, frozenset[VariantId]] = {}

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with bounded(None, timeout_seconds):
            pools = {pool.metadata.name: pool async for pool in objects.pools(self._reads) if self._is_ours(pool)}
            self._handed_over = frozenset(name for name, pool in pools.items() if self._is_handed_over(pool))
            claims = await self._claims(self._handed_over)
        states, unreadable = dict[str, _PoolState](), dict[str, str]()
        for name, pool in pools.items():
            try:
                states[name] = self._state(pool, claims.get(name, ()))
            except ValueError as error:
                unreadable[name] = f"NodePool {name}: {error}"
        unreadable |= _beyond(states)
        self._offered = {name: each for name, each in self._offered.items() if name in pools}
        self._variants = {name: each for name, each in self._variants.items() if name in unreadable}
        found = list[NodeGroup]()
        for name in pools:
            if (why := unreadable.get(name)) is not None:
                found += self._left_out(name, why, claims.get(name, ()))
            else:
                state = states[name]
                self._variants[name] = frozenset(state.variants)
                found += (self._shown(state, id_) for id_ in state.variants)
                found += self._partly_read(state)
        return sorted(found, key=lambda group: group.name)

    async def _claims(self, handed_over: Set[str]) -> Mapping[str, Sequence[ClaimWire | Undecoded]]:
        """All NodeClaims, by the NodePool's name. `handed_over`: the NodePools whose failures are ours."""
        found: defaultdict[str, list[ClaimWire | Undecoded]] = defaultdict(list)
        async for claim in objects.claims(self._reads):
            found[(claim.metadata.labels or {}).get(NODE_POOL, "")].append(claim)
        return found

    def _is_ours(self, pool: PoolWire | Undecoded) -> bool:
        meta, of_karpenter = pool.metadata, isinstance(pool, PoolWire) and is_static(pool)
        return not of_karpenter and meta.deletion_timestamp is None and (not self._wanted or meta.name in self._wanted)

    def _is_handed_over(self, pool: PoolWire | Undecoded) -> bool:
        """Whether Karpenter only serves the NodePool's NodeClaims now; if that cannot be read, as it was."""
        if isinstance(pool, PoolWire):
            with suppress(ValueError):
                return not still_karpenters(pool)
        return pool.metadata.name in self._handed_over

    def _state(self, pool: PoolWire | Undecoded, claims: Iterable[ClaimWire | Undecoded]) -> _PoolState:
        """Raises ValueError if the NodePool cannot be read, or if nobody knows which machine a NodeClaim of it is."""
        if isinstance(pool, Undecoded):
            raise ValueError(pool.problem)
        by_variant: defaultdict[VariantId, list[ClaimWire]] = defaultdict(list)
        read = list[ClaimWire]()
        for claim in claims:
            if isinstance(claim, Undecoded):
                raise ValueError(f"NodeClaim {claim.metadata.name}: {claim.problem}")
            read.append(claim)
            if (id_ := variant_of(claim)) is not None:
                by_variant[id_].append(claim)
        known = variants(self._offerings_of(pool), shown_by(read))
        return _PoolState(
            pool=pool,
            variants=known,
            by_variant=by_variant,
            limits=limits_of(pool, read, known),
            options=options_of(pool),
            owner=still_karpenters(pool),
            meets=rule_of(pool),
        )

    def _offerings_of(self, pool: PoolWire) -> Mapping[VariantId, Offering]:
        name, said = pool.metadata.name, msgspec.json.encode(pool.spec.template)
        before = self._offered.get(name)
        if before is None or before[0] != said:
            found = offerings_of(pool, self._offerings)
            if self._offerings and not found:
                _log.warning("no instance type of the file meets the requirements of a NodePool", nodepool=name)
            self._offered[name] = before = said, found
        return before[1]

    def _shown(self, state: _PoolState, id_: VariantId) -> NodeGroup:
        pool, offering = state.pool, state.variants[id_]
        instances = tuple(sorted(self._instances(state, id_), key=lambda instance: instance.id))
        target = sum(instance.state != "deleting" for instance in instances)
        return NodeGroup(
            name=id_.group,
            provider=self.name,
            min_size=0,
            max_size=target + (state.limits.nodes(offering.capacity) if state.meets(offering) else 0),
            target=target,
            instances=instances,
            template=template_of(pool, id_, offering),
            options=state.options,
            price_micros=offering.price_micros,
            choice=choice_of_provider(self.name, id_.group),
            pool=f"{self.name}/{pool.metadata.name}",
            held_by=state.owner,
        )

    def _left_out(self, pool: str, why: str, claims: Iterable[ClaimWire | Undecoded]) -> Iterator[NodeGroup]:
        """The groups of a NodePool that is left out: those that it had, and those of its NodeClaims."""
        of_group: defaultdict[GroupName, list[Instance]] = defaultdict(list)
        of_group |= {id_.group: [] for id_ in self._variants.get(pool, ())}
        of_group[GroupName(pool)] = []
        for claim in claims:
            if isinstance(claim, ClaimWire):
                id_ = variant_of(claim)
                of_group[GroupName(pool) if id_ is None else id_.group].append(_instance(claim))
        for group, instances in of_group.items():
            yield self._unreadable(group, pool, why, instances)

    def _partly_read(self, state: _PoolState) -> Iterator[NodeGroup]:
        """A group for each NodeClaim of which a part cannot be read, with its machine if no other group has that."""
        pool = state.pool.metadata.name
        for id_, claims in state.by_variant.items():
            for claim in claims:
                if claim.unreadable:
                    name, own = claim.metadata.name, [] if id_ in state.variants else [_instance(claim)]
                    why = f"NodeClaim {name} of NodePool {pool}: {claim.unreadable}"
                    yield self._unreadable(GroupName(f"{pool}/{name}"), pool, why, own)

    def _unreadable(self, group: GroupName, pool: str, why: str, instances: Sequence[Instance]) -> NodeGroup:
        return unreadable_group(self.name, group, why, instances, pool=f"{self.name}/{pool}")

    def _instances(self, state: _PoolState, id_: VariantId) -> Iterator[Instance]:
        yield from (_instance(claim) for claim in state.by_variant.get(id_, ()))
        for name, vanished in self._vanished.items():
            if vanished.group == id_.group:
                yield Instance(id=_own_id(name), state="creating", error=vanished.error)


class KarpenterProvider(KarpenterGroups):
    """Implements `ports.protocols.NodeProvider`."""

    def __init__(self, api: ApiCalls, offerings: Iterable[Offering] = (), *, wanted: Iterable[str] = ()) -> None:
        super().__init__(api, offerings, wanted=wanted)
        self._api = api
        #: The group of each NodeClaim without a node, as it was seen or created.
        self._coming: dict[str, GroupName] = {}
        # Held while NodeClaims are created: variants of one NodePool share its limits.
        self._lock = anyio.Lock()

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._lock:
                state, id_, shown = await self._read(group)
                check_growth(group, target=shown.target, seen=seen, to=to, most=shown.max_size)
                await self._create(state, id_, to - seen)

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._lock:
                state, id_, shown = await self._read(group)
                check_lowering(group, target=shown.target, seen=seen, to=to, least=0)
                vanished = [name for name, gone in self._vanished.items() if gone.group == group][: seen - to]
                waiting = _given_up_first(state.by_variant.get(id_, ()))
                running = seen - len(waiting) - len(vanished)
                if to < running:
                    raise ProviderError("conflict", group, f"{running} nodes exist, want at most {to}")
                chosen = waiting[: seen - to - len(vanished)]
                try:
                    await each(group, chosen, lambda claim: self._give_up(group, claim), width=_WIDTH)
                except ProviderError as error:
                    raise ProviderError(
                        "unknown", group, f"not all of {len(chosen)} NodeClaims were deleted: {error.detail}"
                    ) from error
                self._forget(vanished)

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        ids = frozenset(instance.id for instance in instances)
        with bounded(group, timeout_seconds):
            async with self._lock:
                state, id_, _ = await self._read(group)
                mine = state.by_variant.get(id_, ())
                await self._check_ours(group, ids - {name for claim in mine for name in _ids_of(claim)})
                there = [claim for claim in mine if not is_leaving(claim) and not ids.isdisjoint(_ids_of(claim))]
                vanished = [name for name, gone in self._vanished.items() if gone.group == group and _own_id(name) in ids]
                await each(group, there, lambda claim: self._delete(group, claim), width=_WIDTH)
                self._forget(vanished)
                if replace and (count := len(there) + len(vanished)):
                    await self._create(state, id_, count)

    async def _claims(self, handed_over: Set[str]) -> Mapping[str, Sequence[ClaimWire | Undecoded]]:
        before = dict(self._coming)
        found = await super()._claims(handed_over)
        listed = {claim.metadata.name for claims in found.values() for claim in claims}
        for name, group in before.items():
            if name not in listed and self._coming.pop(name, None) is not None:
                self._vanished[name] = _Vanished(group)
        for claim in (claim for claims in found.values() for claim in claims if isinstance(claim, ClaimWire)):
            name, id_ = claim.metadata.name, variant_of(claim)
            if claim.status.node_name:
                self._coming.pop(name, None)
            elif id_ is not None and id_.pool in handed_over and not is_leaving(claim):
                self._coming[name] = id_.group
        self._vanished = {name: gone for name, gone in self._vanished.items() if _pool_of(gone.group) in handed_over}
        await self._explain()
        return found

    async def _explain(self) -> None:
        """Finds out why NodeClaims vanished. An Event may come later than the deletion, so it is asked for twice."""
        unknown = [(name, gone) for name, gone in self._vanished.items() if gone.error is None]
        for name, gone in unknown[:_MOST_ASKED]:
            try:
                event = await objects.failure(self._reads, name)
            except ProviderError as error:
                _log.warning("the Event of a NodeClaim cannot be read", nodeclaim=name, problem=str(error))
                event = None
            if event is not None:
                gone.error = InstanceError(kind=_kind_of(event.message), code=event.reason, message=event.message)
            elif gone.asked:
                gone.error = _GONE
            gone.asked = True

    async def _read(self, group: GroupName) -> tuple[_PoolState, VariantId, NodeGroup]:
        """Reads the group's NodePool. Raises `ProviderError`, also if Karpenter still changes the NodePool by itself."""
        id_ = read_variant_id(group)
        pool = None if id_ is None else await objects.pool(self._reads, group, id_.pool)
        if id_ is None or pool is None or not self._is_ours(pool):
            raise ProviderError("gone", group, "there is no such NodePool, or it has replicas of its own")
        claims = [claim async for claim in objects.claims(self._reads, id_.pool)]
        try:
            state = self._state(pool, claims)
        except ValueError as error:
            raise ProviderError("other", group, f"NodePool {id_.pool}: {error}") from error
        if id_ not in state.variants:
            raise ProviderError("gone", group, "neither the file of instance types nor a NodeClaim shows this variant")
        if state.owner:
            raise ProviderError("other", group, state.owner)
        return state, id_, self._shown(state, id_)

    async def _create(self, state: _PoolState, id_: VariantId, count: int) -> None:
        """Creates NodeClaims. Raises a `conflict` if another process does so at the same time; after the first one, every
        failure is `unknown`, since a part exists."""
        group = id_.group
        seen = [claim.metadata.uid for claim in state.by_variant.get(id_, ())]
        seen += [name for name, gone in self._vanished.items() if gone.group == group]
        names = [claim_name(id_, seen, number) for number in range(count)]

        async def make(name: str) -> None:
            if not await objects.create(self._api, group, claim_body(state.pool, id_, name)):
                raise ProviderError("conflict", group, f"NodeClaim {name} exists: another process grows the group")
            self._coming[name] = group

        await make(names[0])
        try:
            await each(group, names[1:], make, width=_WIDTH)
        except ProviderError as error:
            raise ProviderError("unknown", group, f"not all of {count} NodeClaims were created: {error.detail}") from error

    async def _delete(self, group: GroupName, claim: ClaimWire) -> None:
        self._coming.pop(claim.metadata.name, None)  # before, since the answer may get lost
        await objects.delete(self._api, group, claim)

    async def _give_up(self, group: GroupName, claim: ClaimWire) -> None:
        """Deletes a NodeClaim that has no node, unless it gets one meanwhile."""
        name = claim.metadata.name

        async def attempt() -> Literal[True] | None:
            now = await objects.claim(self._reads, group, name)
            if now is not None and now.status.node_name:
                raise ProviderError("unknown", group, f"NodeClaim {name} got its node meanwhile")
            return True if now is None or await objects.delete(self._api, group, now, unchanged=True) else None

        self._coming.pop(name, None)
        await repeated(attempt)

    async def _check_ours(self, group: GroupName, unknown: frozenset[InstanceId]) -> None:
        """Raises a `conflict` if one of the instances is in another group. An instance in no group is gone: no error."""
        if not unknown:
            return
        strangers = [
            claim.metadata.name
            async for claim in objects.claims(self._reads)
            if not unknown.isdisjoint(_ids_of(claim))
            and (isinstance(claim, Undecoded) or variant_of(claim) != read_variant_id(group))
        ]
        if strangers:
            raise ProviderError("conflict", group, f"NodeClaims {sorted(strangers)} are of another group")

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._vanished.pop(name, None)


def _beyond(states: Mapping[str, _PoolState]) -> dict[str, str]:
    """The NodePools whose variants are too many beside those of the NodePools with fewer, and what to do."""
    found, count = dict[str, str](), 0
    for name, state in sorted(states.items(), key=lambda item: (len(item[1].variants), item[0])):
        if count + len(state.variants) <= MOST_VARIANTS:
            count += len(state.variants)
            continue
        found[name] = (
            f"NodePool {name}: got {len(state.variants)} variants, want at most {MOST_VARIANTS - count}, since all NodePools "
            f"together may have {MOST_VARIANTS}: narrow its requirements, or the file of instance types"
        )
    return found


def _instance(claim: ClaimWire) -> Instance:
    """A NodeClaim runs once Karpenter has registered its node."""
    status, drifted = claim.status, claim.condition("Drifted")
    node = NodeName(status.node_name) if status.node_name else None
    id_ = InstanceId(status.provider_id) if status.provider_id else _own_id(claim.metadata.name)
    if is_leaving(claim):
        return Instance(id=id_, state="deleting", node=node)
    if node is None:
        return Instance(id=id_, state="creating", error=_error(claim))
    why = f"Karpenter says {drifted.reason}" if drifted.status == "True" else ""
    return Instance(id=id_, state="running", node=node, drifted=why)


def _given_up_first(claims: Iterable[ClaimWire]) -> list[ClaimWire]:
    """The NodeClaims without a node: those that failed, then the youngest."""
    waiting = [claim for claim in claims if _instance(claim).state == "creating"]
    waiting.sort(key=lambda claim: (claim.metadata.creation_timestamp or "", claim.metadata.name), reverse=True)
    return sorted(waiting, key=lambda claim: _error(claim) is None)


def _pool_of(group: GroupName) -> str:
    id_ = read_variant_id(group)
    return "" if id_ is None else id_.pool


def _own_id(name: str) -> InstanceId:
    """The id of a NodeClaim that has not been launched."""
    return InstanceId(f"nodeclaim://{name}")


def _ids_of(claim: ClaimWire | Undecoded) -> frozenset[InstanceId]:
    """The id of the machine, if it is known, and the one from before it was launched."""
    launched = InstanceId(claim.status.provider_id if isinstance(claim, ClaimWire) else "")
    return frozenset({launched, _own_id(claim.metadata.name)} - {InstanceId("")})


def _error(claim: ClaimWire) -> InstanceError | None:
    """Why the launch failed. Karpenter would try again for five minutes, while another variant may be had at once."""
    launched = claim.condition("Launched")
    if launched.status == "True" or launched.reason in _UNTRIED:
        return None
    message = launched.message or launched.reason
    return InstanceError(kind=_kind_of(message), code=launched.reason, message=message)


def _kind_of(message: str) -> InstanceErrorKind:
    text = message.lower().replace(" ", "")
    if "quota" in text or "limitexceeded" in text:
        return "quota"
    return "out-of-resources" if "insufficient" in text else "other"
