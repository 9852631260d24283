"""The state of one node group between loops: since when its instances are upcoming, what was requested, how it failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from slackwater.cluster.nodegroups.ownership import mark_of
from slackwater.cluster.nodegroups.purchases import BoughtNodes, MissingNodes, StartTimes, ZoneBalance
from slackwater.cluster.nodegroups.status import (
    Grow,
    LostInstance,
    Marks,
    NodeGroupBackoff,
    NodeGroupPolicy,
    NodeGroupStatus,
    NodeObservation,
    after_failure,
    differs,
    marks_of,
    usual_of,
)
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import Instance, InstanceId, NodeGroup

#: The share of the requested nodes that may fail before the group backs off. A single failure is always allowed.
_FAILED_SHARE: Final = 0.25
_FORGIVEN: Final = 1
#: Kinds of errors after which another request would fail too, because the provider has no more such machines.
_HOPELESS: Final = frozenset({"out-of-resources", "quota"})


@dataclass(slots=True)
class GroupMemory:
    """What is remembered of one node group between loops. Only `NodeGroupRegistry` changes it."""

    group: NodeGroup
    known: bool = True
    mark: str = ""
    backoff: NodeGroupBackoff | None = None
    #: A scale-up whose call was not answered: it may have happened or not. It is repeated until `confirm_until`.
    unconfirmed: Grow | None = None
    confirm_until: Instant = Instant(0.0)
    grown_at: Instant | None = None
    shrunk_at: Instant | None = None
    removal_failed_at: Instant | None = None
    #: The back-off since deletions of nodes are refused; None if the last one was not.
    refused: NodeGroupBackoff | None = None
    #: The back-offs of lost machines whose deletion was refused.
    refused_lost: dict[InstanceId, NodeGroupBackoff] = field(default_factory=dict)
    #: When each instance was first seen.
    _since: dict[InstanceId, Instant] = field(default_factory=dict)
    #: Instances that existed at the first observation; None before it.
    _found: frozenset[InstanceId] | None = None
    _started: set[NodeName] = field(default_factory=set)
    _lost_since: dict[InstanceId, Instant] = field(default_factory=dict)  # the failures counted so far
    _asked: int = 0  # nodes requested since the counts were last reset
    _failed: int = 0  # of these, the failed ones
    _succeeded: int = 0
    _late: dict[NodeName, LostInstance] = field(default_factory=dict)
    #: The marks that nodes of the group usually have; None until some of them were seen to have started.
    _usual: Marks | None = None
    #: The marks that a new node must have, as far as a template or more than one node show them.
    _expected: Marks | None = None
    _observed_at: Instant = Instant(0.0)
    starts: StartTimes = field(default_factory=StartTimes)
    missing: MissingNodes = field(default_factory=MissingNodes)
    bought: BoughtNodes = field(default_factory=BoughtNodes)
    zone_balance: ZoneBalance = field(default_factory=ZoneBalance)

    def grow_begun(self, scale_up: Grow, policy: NodeGroupPolicy, now: Instant) -> None:
        """Notes that a scale-up call is about to be made. Until its result is known, the scale-up may have happened."""
        if self.unconfirmed is None:
            self.starts.asked(scale_up.nodes, now)
            self._asked += scale_up.nodes
            self.grown_at = now
            self.unconfirmed, self.confirm_until = scale_up, Instant(now + policy.doubt_seconds)

    def observe(
        self, group: NodeGroup, observations: Mapping[InstanceId, NodeObservation], policy: NodeGroupPolicy, now: Instant
    ) -> NodeGroupStatus:
        """Updates the memory from what the provider and Nodes show, and returns the group's status. New failures may start a
        back-off."""
        self.group, self.known, self._observed_at = group, not group.unreadable, now
        if self.unconfirmed is not None and group.target != self.unconfirmed.seen:
            self.unconfirmed = None
        elif self.unconfirmed is not None and now >= self.confirm_until:
            self.unconfirmed = None
            self.back_off(policy, code="no-answer", message="growth was asked for again and again, without an answer", now=now)
        there = {instance.id: instance for instance in group.instances if instance.state != "deleting"}
        observations = self._judged(there, observations, policy, now)
        self._remember(there, observations, policy, now)
        group_status = self._counted_now(there, observations, policy, now)
        self._note_failures((*group_status.lost, *group_status.late), policy, now)
        failed = {each.instance.id for each in (*group_status.lost, *group_status.late)}
        arrived = {id_: each for id_, each in observations.items() if each.started or id_ in failed}
        doubted = {id_ for id_, each in arrived.items() if id_ in failed or differs(each.marks, self._expected)}
        self.bought.observe(group, observations, self.starts.asked_at, arrived=arrived, doubted=doubted, now=now)
        self.zone_balance.observe(self.bought.nodes(), observations.values(), group_status.coming)
        if self.overdue_missing(policy, now):
            self.back_off(policy, code="timeout", message="asked for, and never created", now=now)
        if not group_status.in_creation:
            self.starts.forget_open_requests()
        if not group_status.in_creation and not group_status.lost and (self._succeeded or not self._failed):
            self._asked = self._failed = self._succeeded = 0
        nodes = chain((group.template,), (each.node for each in observations.values()))
        self.mark = "" if group.unreadable else mark_of(group, filter(None, nodes), policy.listed)
        return self._with_group_state(group_status, policy)

    def unobserved(
        self, before: NodeGroupStatus, policy: NodeGroupPolicy, now: Instant, *, unreadable: str = ""
    ) -> NodeGroupStatus:
        """The group's status while its provider does not answer, or cannot read it (`unreadable`): the last status, but after
        the provision timeout no node counts as upcoming any more."""
        self.known = False
        before = replace(before, group=replace(before.group, unreadable=unreadable))
        if now - self._observed_at > policy.provision_timeout_of(self.group):
            before = replace(before, ready=(*before.ready, *before.starting), starting=(), coming=0, missing=0, held=0)
        return self._with_group_state(before, policy)

    def overdue_missing(self, policy: NodeGroupPolicy, now: Instant) -> int:
        """The number of requested nodes that have not appeared as instances within the provision timeout."""
        return 0 if self.unconfirmed is not None else self.missing.longer_than(policy.provision_timeout_of(self.group), now)

    def back_off(self, policy: NodeGroupPolicy, *, code: str, message: str, now: Instant) -> None:
        self.backoff = after_failure(self.backoff, policy.backoff, code=code, message=message, now=now)

    def _remember(
        self,
        there: Mapping[InstanceId, Instance],
        observations: Mapping[InstanceId, NodeObservation],
        policy: NodeGroupPolicy,
        now: Instant,
    ) -> None:
        late = self._late
        self.starts.observe(
            there,
            {id_ for id_, observation in observations.items() if observation.started and observation.name not in late},
            now,
        )
        self._found = frozenset(there) if self._found is None else self._found & there.keys()
        appeared = len(there.keys() - self._since.keys())
        self._since = {id_: self._since.get(id_, now) for id_ in there}
        self._lost_since = {id_: at for id_, at in self._lost_since.items() if id_ in there}
        self.refused_lost = {id_: backoff for id_, backoff in self.refused_lost.items() if id_ in there}
        names = {observation.name for observation in observations.values()}
        started = {
            observation.name
            for id_, observation in observations.items()
            if observation.started or self._is_old(id_, observation, policy)
        }
        self._succeeded += len(started - self._started - late.keys())
        self._started = (self._started & names) | started
        self.missing.observe(max(0, self.group.target - len(there)), appeared, now)

    def _judged(
        self,
        there: Mapping[InstanceId, Instance],
        observations: Mapping[InstanceId, NodeObservation],
        policy: NodeGroupPolicy,
        now: Instant,
    ) -> Mapping[InstanceId, NodeObservation]:
        """The observed Nodes of the group; whether a new node has started is judged by a comparison with the others.

        A new node that differs from the others does not count as started until pods that it was added for are on it, or until
        the provision timeout; until then plans keep placing these pods on it. A ready node that is in use after the provision
        timeout counts as started, whatever it lacks.
        """
        provision_timeout = policy.provision_timeout_of(self.group)
        since = {id_: self._appeared_at(id_, observation, now) for id_, observation in observations.items()}
        new = {
            id_
            for id_, observation in observations.items()
            if observation.name not in self._started and not observation.taken and now - since[id_] <= provision_timeout
        }
        started = [observation.marks for id_, observation in observations.items() if observation.started and id_ not in new]
        self._usual = usual_of(started, self._usual)
        said, expected = None, self._usual
        if self.group.template is not None:  # a new node may have the taints of both
            said = expected = marks_of(self.group.template, policy.taints)
            if self._usual is not None:
                expected = Marks(self._usual.taints | said.taints, self._usual.devices)
        self._expected = expected if len(started) > 1 else said
        late = {
            observation.name: _late_node(there[id_], observation, provision_timeout)
            for id_, observation in observations.items()
            if id_ in there
            and observation.ready
            and not observation.started
            and (
                observation.name in self._late
                or (now - since[id_] > provision_timeout and observation.used and observation.name not in self._started)
            )
        }
        self._late = late
        return {
            id_: replace(
                observation,
                started=observation.name in late or (observation.started and not differs(observation.marks, expected)),
            )
            if observation.name in late or id_ in new
            else observation
            for id_, observation in observations.items()
        }

    def _counted_now(
        self,
        there: Mapping[InstanceId, Instance],
        observations: Mapping[InstanceId, NodeObservation],
        policy: NodeGroupPolicy,
        now: Instant,
    ) -> NodeGroupStatus:
        ready, unready, starting = list[NodeName](), list[NodeName](), list[NodeName]()
        lost, creating = list[LostInstance](), 0
        for id_, instance in sorted(there.items()):
            observation = observations.get(id_)
            problem = self._problem(instance, observation, policy, now)
            if problem is not None:
                lost.append(problem)
            elif observation is None:
                creating += 1
            elif observation.started:
                ready.append(observation.name)
            else:
                (unready if observation.name in self._started else starting).append(observation.name)
        doubted = self.unconfirmed
        overdue = self.missing.longer_than(policy.provision_timeout_of(self.group) + policy.replace_seconds, now)
        return NodeGroupStatus(
            group=self.group,
            known=True,
            ready=tuple(ready),
            unready=tuple(unready),
            starting=tuple(starting),
            coming=creating + len(self.missing) - overdue + (0 if doubted is None else doubted.nodes),
            missing=len(self.missing),
            lost=tuple(lost),
            leaving=len(self.group.instances) - len(there),
            held=sum(self._is_fresh(each, policy, now) for each in lost),
            late=tuple(self._late.values()),
            failing=sum(self._is_fresh(each, policy, now) and not each.given_up for each in lost),
            overdue=overdue,
        )

    def _is_fresh(self, lost: LostInstance, policy: NodeGroupPolicy, now: Instant) -> bool:
        return now - self._lost_since.get(lost.instance.id, now) < policy.replace_seconds

    def _problem(
        self, instance: Instance, observation: NodeObservation | None, policy: NodeGroupPolicy, now: Instant
    ) -> LostInstance | None:
        if instance.error is not None and (observation is None or instance.state == "creating"):
            return LostInstance(instance, instance.error.code, instance.error.message, given_up=True)
        if observation is None and now - self._since[instance.id] > policy.provision_timeout_of(self.group):
            return LostInstance(instance, "timeout", "its node did not register in time", given_up=False)
        if observation is None or observation.used or observation.name in self._started:
            return None
        if now - self._appeared_at(instance.id, observation, now) > policy.provision_timeout_of(self.group):
            message = f"node {observation.name} registered and was not ready in time"
            return LostInstance(instance, "timeout", message, given_up=False)
        return None

    def _is_old(self, id_: InstanceId, observation: NodeObservation, policy: NodeGroupPolicy) -> bool:
        """Whether a node had started before. This is assumed for a node that is in use but not ready, and for a node that was
        older than the provision timeout when we first saw its instance."""
        created_at, was_started = self._created_at(id_, observation), observation.used and not observation.ready
        if created_at is None or id_ not in self._since:
            return was_started
        return was_started or self._since[id_] - created_at > policy.provision_timeout_of(self.group)

    def _created_at(self, id_: InstanceId, observation: NodeObservation) -> Instant | None:
        """The time at which the node was created: the Node's creation timestamp, or None if that is not known.

        The timestamp is from another clock than ours. So for an instance that appeared after our first observation, the result
        is not earlier than the time at which we first saw the instance.
        """
        if observation.created_at is None or self._found is None or id_ in self._found:
            return observation.created_at
        return max(observation.created_at, self._since.get(id_, observation.created_at))

    def _appeared_at(self, id_: InstanceId, observation: NodeObservation, now: Instant) -> Instant:
        """When the node was created, or else when its instance was first seen."""
        created_at = self._created_at(id_, observation)
        return self._since.get(id_, now) if created_at is None else created_at

    def _note_failures(self, lost: tuple[LostInstance, ...], policy: NodeGroupPolicy, now: Instant) -> None:
        new = [problem for problem in lost if problem.instance.id not in self._lost_since]
        self._lost_since |= {problem.instance.id: now for problem in new}
        self._failed += len(new)
        hopeless = [p for p in new if p.instance.error is not None and p.instance.error.kind in _HOPELESS]
        for problem in (hopeless or new)[:1]:
            # Requests before a restart are not known: the nodes that have not started stand for them.
            asked = max(self._asked, len(self._since) + len(self.missing) - len(self._started), 1)
            if hopeless or self._failed > max(_FORGIVEN, _FAILED_SHARE * asked):
                self.back_off(policy, code=problem.code, message=problem.message, now=now)

    def _with_group_state(self, group_status: NodeGroupStatus, policy: NodeGroupPolicy) -> NodeGroupStatus:
        group = group_status.group
        if self.zone_balance.uneven and group.choice.zones == "evenly":
            group = replace(group, choice=replace(group.choice, zones="cloud"))
        return replace(
            group_status,
            group=group,
            known=self.known,
            backoff=self.backoff,
            doubtful=self.unconfirmed is not None,
            off=self.group.name in policy.off,
            mark=self.mark,
            owner=policy.owner_of(self.group, self.mark),
            bought=self.bought.nodes(),
            starts=self.starts.seconds,
        )


def _late_node(instance: Instance, observation: NodeObservation, provision_timeout: float) -> LostInstance:
    lacks = ", ".join(observation.lacks) or "nothing that is known"
    message = f"node {observation.name} is in use, and has not started within {provision_timeout:.0f} s; it waits for: {lacks}"
    return LostInstance(instance, "timeout", message, given_up=True)
