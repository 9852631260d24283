"""Permits that outlive this process: growth is written ahead, shrinking is written lazily (DESIGN 4.1, docs/adr/0011).

What always holds: each answered permit is at most what a restart would reserve for the pod. And a restart would find no more
promised on a node than there is now: growth into room that others gave back waits until their lower permits are written too.
"""

import heapq
from typing import Final

from slackwater.model.effects import Effect, WritePermit
from slackwater.model.events import PermitNotWritten, PermitWritten
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.model.written import Written, read_written
from slackwater.world.books import Books
from slackwater.world.claims import Claim
from slackwater.world.policy import Policy
from slackwater.world.standings import Standing

#: Compute units that a ceiling is raised above the permit, so that the next small steps need no write.
_STEP_UNITS: Final = 4
#: A pod's annotation is written lazily at most so often.
_LAZY_SECONDS: Final = 1.0
#: How long a permit must have been quiet before room kept only for its next steps is given back.
_QUIET_SECONDS: Final = 2.0
#: A pod that grows again so soon after its ceiling was lowered is restless: both pauses above become so many times as long for
#: it, again and again up to the most. So a load that comes and goes costs no writes.
_RESTLESS_SECONDS: Final = 90.0
_RESTLESS_FACTOR: Final = 4.0
_MOST_RESTLESS: Final = 3
#: After a write that was refused.
_PATIENCE_SECONDS: Final = 5.0
#: Lazy writes that one tick starts; the others follow with the next.
_MAX_PER_TICK: Final = 32
#: How often one growth is written anew after finding another text there than expected.
_MAX_ATTEMPTS: Final = 3


class Ceilings:
    """Keeps the annotations true. `settled` collects the pods whose urgent write has ended, for whoever waits."""

    def __init__(self, books: Books, *, policy: Policy) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._standings = books.standings
        self._annotations = books.annotations
        self._tally = books.tally
        self.policy = policy
        self._due: list[tuple[Instant, PodUid]] = []
        #: Pods that a restart would count for more than they were last permitted, and growth that waits for them.
        self._stale: dict[NodeName, dict[PodUid, None]] = {}
        self._blocked: dict[NodeName, dict[PodUid, None]] = {}
        self._released: list[NodeName] = []
        self.settled: list[PodUid] = []

    def safe(self, uid: PodUid) -> Amounts:
        """The most that may be answered at once: what a restart would reserve, whether or not what is being written, or was
        written with an answer that was lost, stands there by then."""
        pod = self._pods.known(uid)
        if pod is None or pod.vertical is None:
            return NOTHING
        restored = self._standings.after_restart(pod, scheduler_name=self.policy.scheduler_name)
        standing = self._standings.get(uid)
        behind = standing is not None and standing.behind
        safe = restored.reserved.minus(restored.buffer) if behind else restored.reserved
        for written in () if standing is None else (standing.writing, standing.doubted):
            if written is not None:
                safe = safe.at_most((written.permit if behind else written.ceiling).at_least(pod.vertical.using))
        return safe

    def ensure(self, uid: PodUid, now: Instant) -> list[Effect]:
        """The pod's account has grown or shrunk: writes what must be written now, and remembers what may wait."""
        standing, claim = self._standings.get(uid), self._claims.get(uid)
        if standing is None or claim is None:
            return []
        self._note(uid, standing, now)
        standing.behind = self._is_behind(uid, claim, now)
        if claim.account.reserved.within(self.safe(uid)):
            return []
        if not standing.urgent:
            standing.urgent, standing.attempts = True, 0
            standing.restless = _restlessness(standing, claim.account.reserved, now)
            standing.lowered_from = None
        return self._write_ahead(uid, standing, now)

    def _is_behind(self, uid: PodUid, claim: Claim, now: Instant) -> bool:
        """Has the pod, within its ceiling, grown into room that others gave back, and that is still written as theirs?"""
        pod, row = self._pods.known(uid), self._nodes.row_of.get(claim.node)
        if pod is None or pod.vertical is None or row is None or claim.node not in self._stale:
            return False
        restored = self._standings.after_restart(pod, scheduler_name=self.policy.scheduler_name)
        grown = not claim.account.reserved.within(restored.reserved.minus(restored.buffer))
        return grown and bool(self._in_the_way(claim.node, row, now))

    def _note(self, uid: PodUid, standing: Standing, now: Instant) -> None:
        """Is there something to be written lazily? Then when?"""
        claim, pod = self._claims.get(uid), self._pods.known(uid)
        if claim is None or pod is None or not _is_kept(standing) or claim.account.buffer != NOTHING:
            standing.settle_at = None
            return
        written = read_written(self._annotations.place_of(pod).text)
        permit = claim.account.reserved
        stale = written is not None and not written.permit.within(permit)
        self._mark_stale(uid, claim.node, stale=stale)
        if written is not None and written.permit == written.ceiling == permit:
            standing.settle_at = None
            return
        if standing.settle_at is None or standing.settle_for != permit:
            pause = _LAZY_SECONDS if stale or written is None else _QUIET_SECONDS
            pause *= _RESTLESS_FACTOR**standing.restless
            standing.settle_for = permit
            self._settle(uid, standing, Instant(max(now + pause, standing.written_at + _LAZY_SECONDS)))

    def _settle(self, uid: PodUid, standing: Standing, at: Instant) -> None:
        standing.settle_at = at
        heapq.heappush(self._due, (at, uid))

    def _mark_stale(self, uid: PodUid, node: NodeName, *, stale: bool) -> None:
        on_node = self._stale.setdefault(node, {})
        if stale:
            on_node[uid] = None
        else:
            on_node.pop(uid, None)
        if not on_node:
            del self._stale[node]

    # --- growth -----------------------------------------------------------------------------------------------------------

    def _write_ahead(self, uid: PodUid, standing: Standing, now: Instant) -> list[Effect]:
        claim = self._claims.get(uid)
        if claim is None or standing.writing is not None:
            return []  # when that write ends, this one's turn comes
        row = self._nodes.row_of.get(claim.node)
        if row is not None and (in_the_way := self._in_the_way(claim.node, row, now)):
            self._blocked.setdefault(claim.node, {})[uid] = None
            return [effect for other in in_the_way for effect in self._write(other, ahead=False, now=now)]
        return self._write(uid, ahead=True, now=now)

    def _in_the_way(self, node: NodeName, row: Row, now: Instant) -> list[PodUid]:
        """The pods whose old, higher permits would take the node over Total, were we to restart after this growth."""
        stale = [uid for uid in self._stale.get(node, ()) if self._may_be_written(uid, now)]
        if not stale:
            return []
        numbers = self._ledger.numbers(row)
        total, reserved = numbers.total, numbers.reserved
        for uid in stale:
            reserved = reserved.plus(self._excess(uid))
        return [] if reserved.within(total) else stale

    def _may_be_written(self, uid: PodUid, now: Instant) -> bool:
        standing = self._standings.get(uid)
        return standing is not None and (standing.writing is not None or standing.written_at <= now)

    def _excess(self, uid: PodUid) -> Amounts:
        claim, pod = self._claims.get(uid), self._pods.known(uid)
        if claim is None or pod is None:
            return NOTHING
        restored = self._standings.after_restart(pod, scheduler_name=self.policy.scheduler_name)
        return restored.reserved.minus(restored.buffer).minus(claim.account.reserved).at_least(NOTHING)

    def room_taken(self, node: NodeName, now: Instant) -> None:
        """A pod was placed on the node: what others gave back there has to be written with the next tick."""
        for uid in self.still_on_record(node, now):
            standing = self._standings.get(uid)
            if standing is not None and standing.writing is None:
                self._settle(uid, standing, now)

    def still_on_record(self, node: NodeName, now: Instant) -> list[PodUid]:
        """Whose old, higher permits would take the node over Total, were we to restart now."""
        row = self._nodes.row_of.get(node)
        return [] if row is None else self._in_the_way(node, row, now)

    # --- writing ----------------------------------------------------------------------------------------------------------

    def _write(self, uid: PodUid, *, ahead: bool, now: Instant) -> list[Effect]:
        standing, claim, pod = self._standings.get(uid), self._claims.get(uid), self._pods.known(uid)
        if standing is None or claim is None or pod is None or standing.writing is not None:
            return []
        permit = claim.account.reserved
        written = Written(permit=permit, ceiling=self._ceiling(pod, claim.node, permit) if ahead else permit)
        place = self._annotations.place_of(pod)
        before = read_written(place.text)
        if before is not None and not before.ceiling.within(written.ceiling):
            standing.lowered_from = before.ceiling
        standing.writing, standing.settle_at, standing.written_at = written, None, now
        standing.attempts += ahead
        self._tally.permit_writes += 1
        return [WritePermit(uid=place.uid, key=place.key, on=place.on, pod=uid, before=place.text, text=written.text())]

    def _ceiling(self, pod: Pod, node: NodeName, permit: Amounts) -> Amounts:
        """A few steps above the permit, within Max and within the room that is there."""
        assert pod.vertical is not None
        row, unit = self._nodes.row_of.get(node), self.policy.vertical.unit
        free = NOTHING if row is None else self._ledger.room(row)[0]
        step = amounts_of([min(room // u, _STEP_UNITS) * u for room, u in zip(free, unit, strict=True)])
        return permit.plus(step).at_most(pod.vertical.max).at_least(permit)

    def written(self, event: PermitWritten, now: Instant) -> list[Effect]:
        """An annotation is known to say this now."""
        standing, pod = self._standings.get(event.pod), self._pods.known(event.pod)
        if pod is not None and pod.vertical is not None:
            self._annotations.note(pod, event.text, event.version)
        if standing is None:
            return []
        meant, standing.writing, standing.doubted = standing.writing, None, None
        if meant is None or event.text != meant.text():
            self._tally.permit_write_failures += 1
        return self._go_on(event.pod, standing, now)

    def not_written(self, event: PermitNotWritten, now: Instant) -> list[Effect]:
        """A write failed: whoever waits for it is answered what is safe, and it is tried again with the next request."""
        self._tally.permit_write_failures += 1
        standing = self._standings.get(event.pod)
        if standing is None:
            return []
        standing.doubted, standing.writing, standing.attempts = standing.writing or standing.doubted, None, _MAX_ATTEMPTS
        standing.written_at = Instant(now + _PATIENCE_SECONDS)
        return self._go_on(event.pod, standing, now)

    def _go_on(self, uid: PodUid, standing: Standing, now: Instant) -> list[Effect]:
        claim = self._claims.get(uid)
        effects: list[Effect] = []
        if claim is not None and standing.urgent:
            standing.behind = self._is_behind(uid, claim, now)
            covered = claim.account.reserved.within(self.safe(uid))
            if covered or standing.attempts >= _MAX_ATTEMPTS:
                standing.urgent = False
                self.settled.append(uid)
            else:
                effects = self._write_ahead(uid, standing, now)
        if standing.writing is None:
            self._note(uid, standing, now)
        return effects + (self._unblock(claim.node, now) if claim is not None else [])

    def _unblock(self, node: NodeName, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for uid in self._blocked.pop(node, {}):
            standing = self._standings.get(uid)
            if standing is not None and standing.urgent:
                effects += self._write_ahead(uid, standing, now)
        return effects

    def due(self, now: Instant) -> list[Effect]:
        """The lazy writes whose time has come."""
        effects = [effect for node in self._released for effect in self._unblock(node, now)]
        self._released.clear()
        while self._due and self._due[0][0] <= now and len(effects) < _MAX_PER_TICK:
            at, uid = heapq.heappop(self._due)
            standing = self._standings.get(uid)
            if standing is not None and standing.settle_at == at:
                effects += self._write(uid, ahead=False, now=now)
        return effects

    def forget(self, uid: PodUid, node: NodeName) -> None:
        """The pod counts no more; growth may have waited for it."""
        self._mark_stale(uid, node, stale=False)
        self.settled.append(uid)
        self._released.append(node)

    def rebuild(self) -> None:
        """After standings were put from elsewhere: what is due, and what is stale, follows from them."""
        for uid, standing in self._standings.items():
            claim, pod = self._claims.get(uid), self._pods.known(uid)
            if standing.settle_at is not None:
                heapq.heappush(self._due, (standing.settle_at, uid))
            if claim is not None and pod is not None and pod.vertical is not None and _is_kept(standing):
                written = read_written(self._annotations.place_of(pod).text)
                stale = written is not None and not written.permit.within(claim.account.reserved)
                self._mark_stale(uid, claim.node, stale=stale)

    def writing(self) -> int:
        """Writes under way."""
        return sum(standing.writing is not None for _, standing in self._standings.items())


def _restlessness(standing: Standing, permit: Amounts, now: Instant) -> int:
    """How often in a row a ceiling was needed again soon after it had been lowered."""
    if standing.written_at + _RESTLESS_SECONDS < now:
        return 0
    needed_again = standing.lowered_from is not None and permit.within(standing.lowered_from)
    return min(standing.restless + needed_again, _MOST_RESTLESS)


def _is_kept(standing: Standing) -> bool:
    """Only who may grow needs a permit on record; a migrating pod's machine is another pod's soon."""
    return standing.exact and standing.vertical.scaling and standing.vertical.migration is None
