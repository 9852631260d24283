"""Permits that outlive this process: growth is written ahead, shrinking is written lazily (DESIGN 4.1, docs/adr/0011).

What always holds: each answered permit is at most what a restart would reserve for the pod. And a restart would find no more
promised on a node than there is now: growth into room that others gave back waits until their lower permits are written too.
"""

import heapq
from collections.abc import Sequence
from functools import reduce
from typing import Final

from slackwater.cluster.cluster_state import Books
from slackwater.cluster.reservations import Claim
from slackwater.cluster.vertical_pods import Standing
from slackwater.controllers.permits.persisted_permits import Records
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect, WritePermit
from slackwater.model.events import PermitNotWritten, PermitWritten
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.permit_annotation import Written, read_written
from slackwater.model.resources import NOTHING, Amounts, amounts_of

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
#: Lazy writes that one tick starts; the others follow with the next. So few that agents' answers hardly wait for them.
_MAX_PER_TICK: Final = 16
#: When a lazy write is due that somebody waits for: before all others, and however many there are.
_AT_ONCE: Final = Instant(0.0)
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
        self.records = Records(books, policy=policy)
        self._policy = policy
        self._due: list[tuple[Instant, PodUid]] = []
        #: Growth that waits until records of others are lower.
        self._blocked: dict[NodeName, dict[PodUid, None]] = {}
        self._released: list[NodeName] = []
        self.settled: list[PodUid] = []

    def adopt_policy(self, policy: Policy) -> None:
        """From now on."""
        self._policy = self.records.policy = policy

    def safe(self, uid: PodUid) -> Amounts:
        """The most that may be answered at once."""
        return self.records.safe(uid)

    def ensure(self, uid: PodUid, now: Instant, *, held: Amounts | None = None) -> list[Effect]:
        """The pod's account has grown or shrunk: writes what must be written now, and remembers what may wait. `held`: what the
        agent that asks has already; None: nobody asks."""
        standing, claim, pod = self._standings.get(uid), self._claims.get(uid), self._pods.known(uid)
        if standing is None or claim is None or pod is None:
            return []
        self._note(uid, standing, now)
        standing.behind = self._is_behind(uid, claim)
        safe = self.records.safe(uid, late=held is not None).at_least(held or NOTHING)
        if not standing.exact or not self._standings.may_write(pod) or claim.account.reserved.within(safe):
            return []
        if not standing.urgent:
            standing.urgent, standing.attempts = True, 0
            standing.restless = _restlessness(standing, claim.account.reserved, now)
            standing.lowered_from = None
        return self._write_ahead(uid, standing, now)

    def recorded(self, uid: PodUid) -> None:
        """The watch has shown another text on record for the pod."""
        self.records.mark(uid)

    def _is_behind(self, uid: PodUid, claim: Claim) -> bool:
        """Has the pod, within its ceiling, grown into room that others gave back, and that is still written as theirs?"""
        return self._raises(uid, claim) and self.records.crowded(claim.node, beside=uid)

    def _raises(self, uid: PodUid, claim: Claim) -> bool:
        """Would its present permit be more than a restart counts for certain?"""
        pod = self._pods.known(uid)
        if pod is None or pod.vertical is None:
            return False
        restored = self.records.restored(pod)
        return not claim.account.reserved.within(restored.reserved.minus(restored.buffer))

    def _note(self, uid: PodUid, standing: Standing, now: Instant) -> None:
        """Is there something to be written lazily? Then when?"""
        self.records.mark(uid)
        claim, pod = self._claims.get(uid), self._pods.known(uid)
        if claim is None or pod is None or not _is_kept(standing) or claim.account.buffer != NOTHING:
            standing.settle_at = None
            return
        own, permit = self._standings.own(pod), claim.account.reserved
        stale = own is not None and not own.permit.within(permit)
        if own is not None and own.permit == own.ceiling == permit:
            standing.settle_at = None
            return
        if standing.settle_at is None or standing.settle_for != permit:
            pause = _LAZY_SECONDS if stale or own is None else _QUIET_SECONDS
            pause *= _RESTLESS_FACTOR**standing.restless
            standing.settle_for = permit
            self._settle(uid, standing, Instant(max(now + pause, standing.written_at + _LAZY_SECONDS)))

    def _settle(self, uid: PodUid, standing: Standing, at: Instant) -> None:
        standing.settle_at = at
        heapq.heappush(self._due, (at, uid))

    # --- growth -----------------------------------------------------------------------------------------------------------

    def _write_ahead(self, uid: PodUid, standing: Standing, now: Instant) -> list[Effect]:
        claim = self._claims.get(uid)
        if claim is None or standing.writing is not None:
            return []  # when that write ends, this one's turn comes
        if others := self.records.in_the_way(claim.node, beside=uid):
            self._blocked.setdefault(claim.node, {})[uid] = None
            return [effect for other in others for effect in self._lower(other, now)]
        standing.attempts += 1
        permit = claim.account.reserved
        return self._write(uid, permit=permit, ceiling=self._ceiling(claim), now=now)

    def room_taken(self, node: NodeName, now: Instant) -> None:
        """A pod was placed on the node: what others gave back there has to be written with the next tick."""
        for uid in self.still_on_record(node):
            standing = self._standings.get(uid)
            if standing is not None and standing.writing is None and standing.written_at <= now:
                self._settle(uid, standing, _AT_ONCE)

    def room_wanted(self, node: NodeName, now: Instant) -> None:
        """A pod would fit, were it not for records on the node: what pods there gave back is written with the next tick."""
        for uid in self.records.loose_on(node):
            standing = self._standings.get(uid)
            if standing is not None and standing.writing is None and standing.written_at <= now:
                self._settle(uid, standing, _AT_ONCE)

    def still_on_record(self, node: NodeName) -> list[PodUid]:
        """Whose records would take the node over Total, were we to restart now."""
        return self.records.in_the_way(node)

    # --- writing ----------------------------------------------------------------------------------------------------------

    def _lower(self, uid: PodUid, now: Instant) -> list[Effect]:
        """Writes what the pod gave back, and of what it took nothing: so it need not wait for others. Where it gave nothing
        back, the same amounts in a new text: then nothing that was on its way before can change it any more."""
        standing = self._standings.get(uid)
        if standing is None or standing.writing is not None or standing.written_at > now:  # mostly: it is being lowered already
            return []
        claim, pod = self._claims.get(uid), self._pods.known(uid)
        if claim is None or pod is None:
            return []
        restored, own, has = self.records.restored(pod), self._standings.own(pod), claim.account.reserved
        permit = restored.reserved.minus(restored.buffer).at_most(has)
        ceiling = (restored.reserved if own is None else own.ceiling).at_most(has).at_least(permit)
        return self._write(uid, permit=permit, ceiling=ceiling, now=now)

    def _write_lazily(self, uid: PodUid, now: Instant) -> list[Effect]:
        """What the pod has, once no record of others is in the way; until then what it gave back."""
        standing, claim = self._standings.get(uid), self._claims.get(uid)
        if standing is None or claim is None:
            return []
        if not _is_kept(standing) or claim.account.buffer != NOTHING:
            return self._lower(uid, now)
        others = self.records.in_the_way(claim.node, beside=uid) if self._raises(uid, claim) else []
        if not others:
            return self._write(uid, permit=claim.account.reserved, ceiling=claim.account.reserved, now=now)
        self._settle(uid, standing, Instant(now + _LAZY_SECONDS))
        return [effect for other in [uid, *others] for effect in self._lower(other, now)]

    def _write(self, uid: PodUid, *, permit: Amounts, ceiling: Amounts, now: Instant) -> list[Effect]:
        standing, pod = self._standings.get(uid), self._pods.known(uid)
        if standing is None or pod is None or standing.writing is not None or not self._standings.may_write(pod):
            return []
        place = self._annotations.place_of(pod)
        before = read_written(place.text)
        number = 1 if before is None else before.number + 1
        written = Written(permit=permit, ceiling=ceiling, pod=uid, number=number, epoch=self._standings.epoch)
        if before is not None and not before.ceiling.within(ceiling):
            standing.lowered_from = before.ceiling
        standing.writing, standing.settle_at, standing.written_at = written, None, now
        self._tally.permit_writes += 1
        self.records.mark(uid)
        return [WritePermit(uid=place.uid, key=place.key, on=place.on, pod=uid, before=place.text, text=written.text())]

    def _ceiling(self, claim: Claim) -> Amounts:
        """A few steps above the permit, within Max and within the room that is there."""
        permit, row, unit = claim.account.reserved, self._nodes.row_of.get(claim.node), self._policy.vertical.unit
        free = NOTHING if row is None else self._ledger.room(row)[0]
        step = amounts_of([min(room // u, _STEP_UNITS) * u for room, u in zip(free, unit, strict=True)])
        return permit.plus(step).at_most(claim.account.max).at_least(permit)

    def written(self, event: PermitWritten, now: Instant) -> list[Effect]:
        """An annotation is known to say this now."""
        standing, pod = self._standings.get(event.pod), self._pods.known(event.pod)
        if pod is not None and pod.vertical is not None:
            self._annotations.note(pod, event.text, event.version, counted=standing is not None)
        if standing is None:
            return []
        meant, standing.writing, standing.doubted = standing.writing, None, ()
        self._fence(event.pod, standing)
        if meant is None or event.text != meant.text():
            self._tally.permit_write_failures += 1
        return self._go_on(event.pod, standing, now)

    def not_written(self, event: PermitNotWritten, now: Instant) -> list[Effect]:
        """A write failed: whoever waits for it is answered what is safe, and it is tried again with the next request."""
        self._tally.permit_write_failures += 1
        standing = self._standings.get(event.pod)
        if standing is None:
            return []
        if standing.writing is not None:
            standing.doubted = _extremes((*standing.doubted, standing.writing))
        standing.writing, standing.attempts = None, _MAX_ATTEMPTS
        standing.written_at = Instant(now + _PATIENCE_SECONDS)
        return self._go_on(event.pod, standing, now)

    def _fence(self, uid: PodUid, standing: Standing) -> None:
        """Whatever was sent before meant an older text, and does nothing any more: so for all pods of the machine."""
        for other in [uid] if standing.machine is None else self._standings.of_machine(standing.machine):
            if (found := self._standings.get(other)) is not None:
                found.fenced = True
                self.records.mark(other)

    def _go_on(self, uid: PodUid, standing: Standing, now: Instant) -> list[Effect]:
        claim = self._claims.get(uid)
        effects: list[Effect] = []
        if claim is not None and standing.urgent:
            standing.behind = self._is_behind(uid, claim)
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
        """Tries those who waited. The first two that have to wait on have everybody who is in the way lowered, one another
        included; of the others it is only asked whether anybody still is."""
        effects: list[Effect] = []
        waited = self._blocked.pop(node, {})
        still = self._blocked.setdefault(node, {}) if waited else {}
        for uid in waited:
            standing = self._standings.get(uid)
            if standing is None or not standing.urgent:
                continue
            if len(still) > 1 and self.records.crowded(node, beside=uid):
                still[uid] = None
            else:
                effects += self._write_ahead(uid, standing, now)
        if not still:
            self._blocked.pop(node, None)
        return effects

    def due(self, now: Instant) -> list[Effect]:
        """The lazy writes whose time has come."""
        effects = [effect for node in self._released for effect in self._unblock(node, now)]
        self._released.clear()
        while self._due and self._due[0][0] <= (now if len(effects) < _MAX_PER_TICK else _AT_ONCE):
            at, uid = heapq.heappop(self._due)
            standing = self._standings.get(uid)
            if standing is not None and standing.settle_at == at:
                effects += self._write_lazily(uid, now)
        return effects

    def forget(self, uid: PodUid, node: NodeName) -> None:
        """The pod counts no more; growth may have waited for it."""
        self.records.forget(uid, node)
        self.settled.append(uid)
        self._released.append(node)

    def nobody_waits(self) -> None:
        """As long as nothing is decided."""
        self._released.clear()

    def begin_again(self) -> None:
        """Forgets what was due, and who waits: all standings are found anew."""
        self._due.clear()
        self._blocked.clear()
        self._released.clear()

    def rebuild(self) -> None:
        """After standings were put from elsewhere: what is due, and what is stale, follows from them."""
        for uid, standing in self._standings.items():
            if standing.settle_at is not None:
                heapq.heappush(self._due, (standing.settle_at, uid))
            self.records.mark(uid)

    def writing(self) -> int:
        """Writes under way."""
        return sum(standing.writing is not None for _, standing in self._standings.items())


def _restlessness(standing: Standing, permit: Amounts, now: Instant) -> int:
    """How often in a row a ceiling was needed again soon after it had been lowered."""
    if standing.written_at + _RESTLESS_SECONDS < now:
        return 0
    needed_again = standing.lowered_from is not None and permit.within(standing.lowered_from)
    return min(standing.restless + needed_again, _MOST_RESTLESS)


def _extremes(texts: Sequence[Written]) -> tuple[Written, ...]:
    """The least and the most that any of the texts would mean: no more need be remembered, however many there are."""
    permits, ceilings = [text.permit for text in texts], [text.ceiling for text in texts]
    least = Written(permit=reduce(Amounts.at_most, permits), ceiling=reduce(Amounts.at_most, ceilings))
    most = Written(permit=reduce(Amounts.at_least, permits), ceiling=reduce(Amounts.at_least, ceilings))
    return (least,) if least == most else (least, most)


def _is_kept(standing: Standing) -> bool:
    """Only who may grow needs a permit on record; a migrating pod's machine is another pod's soon."""
    return standing.exact and standing.vertical.scaling and standing.vertical.migration is None
