"""`NodeGroupRegistry`, which keeps the state of all node groups between loops (the package's docstring says what this is)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from slackwater.cluster.nodegroups.group_state import GroupMemory
from slackwater.cluster.nodegroups.status import (
    Delete,
    GroupCleanup,
    Grow,
    LowerTarget,
    NodeGroupPolicy,
    NodeGroupStatus,
    NodeObservation,
    ScaleUpInfo,
    after_failure,
)
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName, InstanceId, NodeGroup


class NodeGroupRegistry:
    """The registry of all node groups; a process has one. `policy` may be replaced between two loops."""

    def __init__(self, policy: NodeGroupPolicy) -> None:
        self.policy = policy
        self._memories: dict[GroupName, GroupMemory] = {}
        self._group_status: dict[GroupName, NodeGroupStatus] = {}
        self._expected_starts: Mapping[GroupName, Sequence[float]] = {}
        #: The nodes that the last `grant` did not allow yet, for people.
        self.queued: tuple[ScaleUpInfo, ...] = ()

    @property
    def group_status(self) -> Mapping[GroupName, NodeGroupStatus]:
        """The status of each group, by name and sorted by name."""
        return self._group_status

    def observe(
        self,
        groups: Iterable[NodeGroup],
        observations: Mapping[InstanceId, NodeObservation],
        now: Instant,
        *,
        silent: Iterable[str] = (),
    ) -> None:
        """Updates all groups from what their providers report. Groups that were read before keep their status if their
        provider is one of `silent`, which did not answer, or cannot read them now.

        `observations` are the Nodes, by the ids of their instances.
        """
        silent_providers = frozenset(silent)
        # A group of another provider may have the name that tells why a pool cannot be read.
        seen = {group.name: group for group in sorted(groups, key=lambda group: not group.unreadable)}
        before, self._group_status = self._group_status, {}
        for name in sorted(
            {*seen, *(name for name, group_status in before.items() if group_status.group.provider in silent_providers)}
        ):
            group, memory = seen.get(name), self._memories.get(name)
            if memory is not None and (group is None or (group.unreadable and not memory.group.unreadable)):
                self._group_status[name] = memory.unobserved(
                    before[name], self.policy, now, unreadable="" if group is None else group.unreadable
                )
                continue
            assert group is not None
            if memory is None or (memory.group.unreadable and not group.unreadable):
                memory = self._memories[name] = GroupMemory(group)
                memory.starts.restore(self._expected_starts.get(name, ()))
            of_group = {i.id: observations[i.id] for i in group.instances if i.id in observations}
            self._group_status[name] = memory.observe(group, of_group, self.policy, now)
        self._memories = {name: self._memories[name] for name in self._group_status}

    def starts(self) -> dict[GroupName, tuple[float, ...]]:
        """How many seconds each of the last nodes of a group took to start, by group; a later process passes it to
        `expect_starts`."""
        return {name: memory.starts.seconds for name, memory in self._memories.items() if memory.starts.seconds}

    def expect_starts(self, starts: Mapping[GroupName, Sequence[float]]) -> None:
        """Restores the start times that an earlier process measured (`starts`)."""
        self._expected_starts = starts
        for name, memory in self._memories.items():
            memory.starts.restore(starts.get(name, ()))

    def due_cleanups(self, now: Instant) -> tuple[GroupCleanup, ...]:
        """The requests to providers that clean up before planning. They delete lost instances: those that failed, or did not
        become a started node in time. They lower the target size for requested nodes that never appeared.

        No request would take a group below its minimum, which providers refuse. What is left waits until scale-up has raised
        the target (`NodeGroupStatus.dead`).
        """
        found = (
            self._cleanup(each, now) for each in self._group_status.values() if each.known and not each.off and not each.owner
        )
        return tuple(cleanup for cleanup in found if cleanup is not None)

    def _cleanup(self, group_status: NodeGroupStatus, now: Instant) -> GroupCleanup | None:
        group, name = group_status.group, group_status.name
        # More machines than the target says remain of a deletion whose answer was lost.
        there = max(group.target, len(group.instances) - group_status.leaving)
        spare = max(there - group.min_size, 0)
        if group_status.lost and group.undeletable:
            return None
        refused = self._memories[name].refused_lost
        waits = {id_ for id_, backoff in refused.items() if backoff.holds(now)}
        lost = sorted((each for each in group_status.lost if each.instance.id not in waits), key=lambda each: not each.given_up)
        if lost and spare:
            return Delete(group=name, provider=group.provider, lost=tuple(lost[:spare]))
        failing = group_status.backoff is not None and group_status.backoff.holds(now)
        if lost and group.target >= group.max_size and not failing:  # there is no room to grow first
            return Delete(group=name, provider=group.provider, lost=tuple(lost[:1]), replace=True)
        overdue = min(self._memories[name].overdue_missing(self.policy, now), spare)
        if overdue and not group_status.lost:
            return LowerTarget(group=name, provider=group.provider, seen=group.target, to=group.target - overdue)
        return None

    def grant(self, infos: Sequence[ScaleUpInfo], now: Instant) -> tuple[Grow, ...]:
        """The scale-ups that may be requested now, highest priority first. If a limit does not allow all, those of higher
        priority come first, and `queued` has the others. A scale-up whose call was not answered is requested again, with the
        same size."""
        again = [replace(each.unconfirmed, again=True) for each in self._memories.values() if each.unconfirmed is not None]
        queued: list[ScaleUpInfo] = []
        rooms = _Rooms(self._group_status.values(), self.policy)
        for info in sorted(infos, key=lambda info: -info.priority):
            group_status = self._group_status[info.group]
            closed = group_status.closed(now)
            nodes, limit = (0, closed) if closed is not None else rooms.take(group_status, info)
            if limit is not None:
                queued.append(replace(info, nodes=info.nodes - nodes, waits_for=limit))
        self.queued = tuple(queued)
        repeated = (scale_up for scale_up in again if self._group_status[scale_up.group].known)
        granted = ((self._group_status[name].group, nodes) for name, nodes in rooms.granted.items())
        new = [
            Grow(group=group.name, provider=group.provider, seen=group.target, to=group.target + nodes)
            for group, nodes in granted
        ]
        return (*repeated, *new)

    # --- how calls ended --------------------------------------------------------------------------------------------------

    def grow_begun(self, scale_up: Grow, now: Instant) -> None:
        """Notes that a scale-up call is about to be made. Until its result is known, the scale-up may have happened."""
        self._memories[scale_up.group].grow_begun(scale_up, self.policy, now)

    def grow_ended(self, scale_up: Grow, kind: str | None, detail: str, now: Instant) -> None:
        """Notes the result of a scale-up call. `kind` is that of the ProviderError, None for success. After "unknown" the
        scale-up may still have happened, so it stays unconfirmed."""
        memory = self._memories.get(scale_up.group)
        if memory is None:
            return
        if kind in {None, "unknown"} and not scale_up.again:
            # Adds the requested nodes to the group's status, which is used for as long as the provider does not answer.
            status, answered = self._group_status[scale_up.group], kind is None
            group = replace(status.group, target=scale_up.to) if answered else status.group
            coming = status.coming + scale_up.nodes
            self._group_status[scale_up.group] = replace(status, group=group, coming=coming, doubtful=not answered)
        if kind == "unknown":
            return
        memory.unconfirmed = None
        if kind not in {None, "conflict", "limit"}:
            memory.back_off(self.policy, code=str(kind), message=detail, now=now)

    def deleted(self, group: GroupName, now: Instant, *, ok: bool) -> None:
        """Notes the end of a removal of nodes that had been in use. It starts a cool-down of this group only."""
        memory = self._memories.get(group)
        if memory is None:
            return
        if ok:
            memory.shrunk_at = now
            memory.refused = None
        else:
            memory.removal_failed_at = now

    def deletion_refused(self, group: GroupName, detail: str, now: Instant) -> None:
        """Notes that the provider refused to delete a node of the group, or did not do it. No other removal begins there for a
        while, which is longer after each refusal, until one succeeds (`deleted`)."""
        memory = self._memories.get(group)
        if memory is not None:
            policy = self.policy.refusal_backoff
            memory.refused = after_failure(memory.refused, policy, code="deletion-refused", message=detail, now=now)

    def lost_not_deleted(self, group: GroupName, machine: InstanceId, detail: str, now: Instant) -> None:
        """Notes that the provider refused to delete a lost machine: it is tried again after a while, longer each time."""
        memory = self._memories.get(group)
        if memory is not None:
            before, policy = memory.refused_lost.get(machine), self.policy.refusal_backoff
            memory.refused_lost[machine] = after_failure(before, policy, code="deletion-refused", message=detail, now=now)

    def last_deletion_refused(self, group: GroupName) -> bool:
        """Whether the last deletion of a node of the group was refused."""
        memory = self._memories.get(group)
        return memory is not None and memory.refused is not None

    def cooling(
        self, group: GroupName, now: Instant, *, after_add: float, after_delete: float, after_failure: float
    ) -> str | None:
        """Why the group may not shrink yet, as a text; None if it may. Only changes of this group matter, and what its provider
        said of deletions."""
        memory = self._memories.get(group)
        if memory is None:
            return None
        for since, seconds, why in (
            (memory.grown_at, after_add, "it has grown"),
            (memory.shrunk_at, after_delete, "nodes of it were removed"),
            (memory.removal_failed_at, after_failure, "a removal failed"),
        ):
            if since is not None and now - since < seconds:
                return f"{why} {now - since:.0f} s ago"
        refused = memory.refused
        if refused is not None and refused.holds(now):
            return f"a deletion was refused: {refused.message}; tried again in {refused.until - now:.0f} s"
        return memory.group.undeletable or None


class _Rooms:
    """Counts how many more nodes may be upcoming: in the cluster, and in each group."""

    def __init__(self, group_status: Iterable[NodeGroupStatus], policy: NodeGroupPolicy) -> None:
        self._policy = policy
        self._cluster = sum(each.in_time for each in group_status)
        #: The granted nodes of each group, that of the most important ones first.
        self.granted = Counter[GroupName]()

    def take(self, group_status: NodeGroupStatus, info: ScaleUpInfo) -> tuple[int, str | None]:
        """Decides how many of the wanted nodes may be requested, and counts these. Returns their number, and the limit that
        stops the others (None if there are no others)."""
        group = group_status.group
        before, policy = self.granted[group.name], self._policy
        own = policy.in_group.get(group.name, policy.in_other_groups)
        limits = (
            ("nodes in creation in the cluster", policy.in_cluster, self._cluster),
            ("nodes in creation in the group", own, group_status.in_creation + before),
        )
        left = [(name, limit - taken) for name, limit, taken in limits if limit]
        name, least = min([*left, ("the group's maximum size", group.max_size - group.target - before)], key=itemgetter(1))
        granted = max(0, min(info.nodes, least))
        if group.options.all_or_nothing and granted < info.nodes:
            return 0, f"{name}: the group grows as a whole or not at all"
        if granted:
            self.granted[group.name] += granted
            self._cluster += granted
        return granted, name if granted < info.nodes else None
