"""The state of nominations in advance: holds room for each nominated pod, and counts how each nomination ends.

    nominations -> hold and NominateInAdvance -> written -> filter asks about that one node -> bound there: met
                          \\-> not written, asked about others, refused, bound elsewhere, too late ...: missed
                          (`counts.Miss`)

A nomination is a hint: if it fails, kube-scheduler's own search goes on. So none of this has to outlive the process, and a
nomination that an earlier process wrote is treated like one of another client. Each pod is nominated once, and again only if
the write failed because the pod had changed. Deliberately absent: which node (`node_ranking`), and when to nominate (`loop`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.journal import ChangeJournal
from slackwater.controllers.nomination.aimd_window import NominationWindow
from slackwater.controllers.nomination.counts import ChosenNodes, Miss, NominationCounts
from slackwater.controllers.policy import NominationPolicy, Policy
from slackwater.fit.filter.node_accounting import judge_ledger
from slackwater.model.columns import Codes, Rows
from slackwater.model.effects import Effect, NominateInAdvance
from slackwater.model.events import AdvanceNominationEnded, NominationEvent, PodNomination, PodsNominated
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater_protocol.names import GATE

#: If kube-scheduler has taken no pod from its queue for this long, it has nothing to do or is down.
_IDLE_SECONDS: Final = 1.0


class SchedulerActivity:
    """When kube-scheduler last took a pod from its queue, as its filter calls show it."""

    def __init__(self) -> None:
        self._taken_at: Instant | None = None

    def taken(self, now: Instant) -> None:
        """Notes that kube-scheduler took a pod from its queue now."""
        self._taken_at = now

    def at_work(self, now: Instant) -> bool:
        """Has kube-scheduler taken a pod within the last second?"""
        return self.idle_at(_IDLE_SECONDS, now) is not None

    def idle_at(self, seconds: float, now: Instant) -> Instant | None:
        """The instant at which kube-scheduler will have taken no pod for `seconds`, if it takes none until then. None if it has
        taken none for that long already."""
        at = None if self._taken_at is None else Instant(self._taken_at + seconds)
        return at if at is not None and at > now else None


#: While kube-scheduler is busy with other pods, a nomination's room is held for up to so many times `hold_seconds`.
_LONGEST_HOLDS: Final = 10
#: The most attempts to nominate a pod, if the writes fail because the pod has changed.
_MOST_TRIES: Final = 3


@dataclass(slots=True)
class _Nomination:
    """One nomination. `picky`: the pod if it has pod constraints, else None. `written`: the write has ended. `asked`: filter
    was asked about the nominated node alone. `shown`: the watch has shown the nomination."""

    node: NodeName
    at: Instant
    picky: Pod | None
    written: bool = False
    asked: bool = False
    shown: bool = False


class AdvanceNominations:
    """The nominations in advance: makes them, holds room for them, and counts how they end."""

    def __init__(self, cluster_state: ClusterState, *, preempts: Callable[[PodUid], bool]) -> None:
        """Begins without nominations. `preempts` tells whether a preemption for the pod is under way."""
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods
        self._holds = cluster_state.holds
        self._room = cluster_state.room
        self._bind_backoff = cluster_state.bind_backoff
        self._sample_misses = cluster_state.sample_misses
        self._unschedulable_pods = cluster_state.unschedulable_pods
        self._preempts = preempts
        self._nominations: dict[PodUid, _Nomination] = {}
        self._unwritten = 0
        #: Nominated pods that filter has not been asked about yet.
        self._ahead: set[PodUid] = set()
        #: Pods without a nomination that filter was asked about; kept while they have a hold.
        self._not_nominated: dict[PodUid, None] = {}
        #: For each waiting pod of our scheduler: when it was first seen, and its arrival sequence number. Each search of
        #: kube-scheduler for the pod gives it a new number.
        self._came: dict[PodUid, tuple[Instant, int]] = {}
        self._last_sequence = 0
        self._tries: dict[PodUid, int] = {}
        self.counts = NominationCounts()
        self.choices = ChosenNodes(cluster_state, self.counts, self._note)
        self.nomination_window = NominationWindow()
        self._activity = SchedulerActivity()
        #: Counts arrivals and changes of our scheduler's pods. The nomination loop starts a round when the count has changed.
        self.arrived = 0
        #: Pods that kube-scheduler has searched for by itself since the nomination loop last cleared this.
        self.searched: set[PodUid] = set()
        #: The UIDs of pods whose nominated or chosen node has changed, for each reader since it last read.
        self.journal = ChangeJournal[PodUid]()

    def node_of(self, uid: PodUid) -> NodeName | None:
        """The node that the pod was nominated for, or that filter named alone."""
        nomination = self._nominations.get(uid)
        return self.choices.node_of(uid) if nomination is None else nomination.node

    def sequence_of(self, uid: PodUid) -> int:
        """The arrival sequence number of a waiting pod of ours, in the order of kube-scheduler's queue; -1 for another pod."""
        came = self._came.get(uid)
        return -1 if came is None else came[1]

    def may_nominate(self, policy: NominationPolicy, now: Instant) -> int:
        """The number of further pods that may be nominated now."""
        if policy.paused or not policy.enabled or len(self._nodes) < policy.min_nodes:
            return 0
        return max(
            0,
            min(
                self.nomination_window.allowed(policy.nomination_window, now) - self._unwritten,
                policy.max_ahead - len(self._ahead),
            ),
        )

    def may_choose(self, uid: PodUid, policy: NominationPolicy) -> bool:
        """May filter's answer about this pod name only one of several feasible nodes? Not if room is kept for the pod
        already."""
        free = self._room.node_of(uid) is None and not self._preempts(uid)
        return policy.enabled and free and self.choices.may_choose(uid)

    def scheduler_at_work(self, now: Instant) -> bool:
        """Does kube-scheduler take pods from its queue now? Then only pods behind a scheduling gate are nominated in advance.
        For all others filter names one node when kube-scheduler asks, which saves as much and costs the API server nothing.
        """
        return self._activity.at_work(now)

    def elsewhere(self) -> list[Pod]:
        """Pods that kube-scheduler is about to bind to a node which we neither nominated nor chose."""
        self._not_nominated = {
            uid: None
            for uid in self._not_nominated
            if uid not in self._nominations and self.choices.node_of(uid) is None and self._holds.get(uid) is not None
        }
        return [
            pod
            for uid in self._not_nominated
            if (pod := self._pods.get(uid)) is not None and self._reservations.get(uid) is None
        ]

    def waiting(self) -> list[Pod]:
        """The nominated pods that are not bound yet and have pod constraints."""
        return [pod for nomination in self._nominations.values() if (pod := nomination.picky) is not None]

    def __len__(self) -> int:
        return len(self._nominations)

    # --- what happens -----------------------------------------------------------------------------------------------------

    def seen(self, pod: Pod, policy: Policy, now: Instant) -> None:
        """Handles a pod that the watch shows without a node."""
        if not policy.nomination.enabled or pod.kind.scheduler_name != policy.scheduler_name:
            return
        if pod.uid not in self._came:
            self._came[pod.uid] = now, self._next_sequence()
        nomination = self._nominations.get(pod.uid)
        if nomination is None:
            self.arrived += 1
            return
        if pod.nominated_node == nomination.node:
            nomination.shown = True
        elif pod.nominated_node is not None:
            self._miss(pod.uid, Miss.REPLACED, policy, now)
        elif nomination.shown:
            # kube-scheduler clears a nomination at the end of a search that found nothing.
            self._miss(pod.uid, Miss.REFUSED_IN_TREE, policy, now)

    def apply(self, event: NominationEvent, policy: Policy, now: Instant) -> list[Effect]:
        """Nominates the picks of a choice, or handles the end of a nomination's write. Returns the effects to carry out."""
        match event:
            case PodsNominated(picks):
                effects = [effect for pick in picks if (effect := self._nominate(pick, policy, now)) is not None]
                self.counts.dropped += len(picks) - len(effects)
                return list(effects)
            case AdvanceNominationEnded(uid, node, written):
                return self._write_ended(uid, node, policy, now, written=written)

    def asked(self, pod: Pod, rows: Rows, codes: Codes, policy: Policy, now: Instant) -> None:
        """Handles a filter call about the pod. `codes`: filter's verdict on each of `rows`."""
        nomination = self._nominations.get(pod.uid)
        if nomination is None or len(rows) != 1 or int(rows[0]) != self._nodes.row_of.get(nomination.node):
            self.sought(pod, policy, now)
        elif policy.nomination.enabled:
            if codes[0] != Reason.OK:
                self._miss(pod.uid, Miss.REFUSED, policy, now)
            elif not nomination.asked:
                self._ahead.discard(pod.uid)
                nomination.asked = True
                self._activity.taken(now)

    def sought(self, pod: Pod, policy: Policy, now: Instant) -> None:
        """Handles a filter call about other nodes than the pod's nominated one: kube-scheduler searches for the pod by itself.

        `pod`: the pod in the filter call, as kube-scheduler saw it when its search began. So it shows whether kube-scheduler
        knew the nomination."""
        if not policy.nomination.enabled:
            return
        nomination = self._nominations.get(pod.uid)
        if nomination is None:
            self._search(pod, now)
            return
        knew = pod.nominated_node == nomination.node
        self._miss(pod.uid, Miss.REFUSED_IN_TREE if knew else Miss.LATE, policy, now)
        self._search(pod, now)

    def _search(self, pod: Pod, now: Instant) -> None:
        """Notes that kube-scheduler searches for the pod by itself. The pod gets a new sequence number, since it goes to the
        end of kube-scheduler's queue if the search finds nothing."""
        self.searched.add(pod.uid)
        self._not_nominated[pod.uid] = None
        self._activity.taken(now)
        came = self._came.get(pod.uid)
        if came is not None:
            self._came[pod.uid] = came[0], self._next_sequence()

    def _next_sequence(self) -> int:
        self._last_sequence += 1
        return self._last_sequence

    def bound(self, uid: PodUid, node: NodeName, policy: Policy, now: Instant) -> None:
        """Handles a pod that the watch shows on a node."""
        came, nomination = self._came.pop(uid, None), self._nominations.get(uid)
        if nomination is not None and nomination.node != node:
            self._miss(uid, Miss.ELSEWHERE, policy, now)
        elif nomination is not None:
            self._forget(uid, nomination)
            self.counts.met += 1
            self.nomination_window.note_hit(policy.nomination.nomination_window, now)
        self._tries.pop(uid, None)
        self._not_nominated.pop(uid, None)
        self.choices.ended(uid, node)
        if came is not None:
            self.counts.until_bound.observe(now - came[0])

    def gone(self, uid: PodUid) -> None:
        """Forgets a pod that is gone or has ended."""
        self._came.pop(uid, None)
        self._tries.pop(uid, None)
        self._not_nominated.pop(uid, None)
        self.choices.ended(uid, None)
        nomination = self._nominations.get(uid)
        if nomination is not None:
            self._forget(uid, nomination)
            self.counts.missed[Miss.GONE] += 1

    def prolonged(self, uid: PodUid, policy: NominationPolicy, now: Instant) -> Instant | None:
        """The new deadline of a nominated pod's expired hold. The hold is prolonged while kube-scheduler is busy with other
        pods; None if it ends."""
        nomination = self._nominations.get(uid)
        if nomination is None or nomination.asked or now >= nomination.at + _LONGEST_HOLDS * policy.hold_seconds:
            return None
        return self._activity.idle_at(policy.hold_seconds, now)

    def hold_expired(self, uid: PodUid, policy: Policy, now: Instant) -> None:
        """Ends the pod's nomination, or the choice of its node, because its hold has expired."""
        self.choices.given_up(uid)
        self._miss(uid, Miss.EXPIRED, policy, now)

    # --- one nomination ---------------------------------------------------------------------------------------------------

    def _nominate(self, pick: PodNomination, policy: Policy, now: Instant) -> NominateInAdvance | None:
        pod = self._pods.get(pick.uid)
        row = self._nodes.row_of.get(pick.node)
        if pod is None or row is None or not self._is_free(pod) or pick.node in self._bind_backoff.nodes_denied(pod.uid, now):
            return None
        rows: Rows = np.array([row], np.intp)
        with self._room.beside(pod):
            if judge_ledger(self._vertical_pods.need(pod), self._ledger.columns, rows)[0] != Reason.OK:
                return None
        deadline = Instant(now + policy.nomination.hold_seconds)
        self._holds.put(pod.uid, pod.key, rows, self._vertical_pods.need(pod), deadline, nominee=pod.priority)
        self._nominations[pod.uid] = _Nomination(pick.node, now, None if pod.kind.pod_constraints is None else pod)
        self._tries[pod.uid] = self._tries.get(pod.uid, 0) + 1
        self._unwritten += 1
        self._ahead.add(pod.uid)
        self.counts.made += 1
        self._note(pod.uid)
        came = self._came.get(pod.uid)
        if came is not None:
            self.counts.until_nominated.observe(now - came[0])
        return NominateInAdvance(pod.uid, pod.key, pick.node, pod.resource_version, GATE in pod.gates)

    def _is_free(self, pod: Pod) -> bool:
        """May the pod be nominated? Not if it is bound, nominated or being deleted; if filter, a bind, a preemption or a
        migration keeps room for it; or if a former nomination of it was written."""
        uid = pod.uid
        return (
            pod.node is None
            and not pod.ended
            and not pod.deleting
            and pod.nominated_node is None
            and self._tries.get(uid, 0) < _MOST_TRIES
            and uid not in self._nominations
            and self._reservations.get(uid) is None
            and self._holds.get(uid) is None
            and self._room.node_of(uid) is None
            and not self._preempts(uid)
            and self._sample_misses.get(uid) is None
            and (pod.vertical is None or pod.vertical.migration is None)
        )

    def _write_ended(self, uid: PodUid, node: NodeName, policy: Policy, now: Instant, *, written: bool) -> list[Effect]:
        nomination = self._nominations.get(uid)
        if nomination is None or nomination.node != node or nomination.written:
            return []
        self._unwritten -= 1
        nomination.written = True
        self.nomination_window.written(now - nomination.at, policy.nomination.nomination_window, now)
        if written:
            self._tries[uid] = _MOST_TRIES
            return []
        asked = nomination.asked
        self._miss(uid, Miss.UNWRITTEN, policy, now)
        # If filter has been asked meanwhile, the hold belongs to that answer.
        if asked or self._holds.drop(uid) is None:
            return []
        return self._unschedulable_pods.activate_held()

    def _miss(self, uid: PodUid, why: Miss, policy: Policy, now: Instant) -> None:
        nomination = self._nominations.get(uid)
        if nomination is None:
            return
        self._forget(uid, nomination)
        self.counts.missed[why] += 1
        self.nomination_window.note_miss(policy.nomination.nomination_window, now, made_at=nomination.at)

    def _forget(self, uid: PodUid, nomination: _Nomination) -> None:
        del self._nominations[uid]
        self._unwritten -= not nomination.written
        self._ahead.discard(uid)
        self._note(uid)

    def _note(self, uid: PodUid) -> None:
        self.journal.note(uid)
