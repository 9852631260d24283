"""What is known of each counted pod that grows in place, beyond its account; and how its account begins and changes.

A standing lives as long as its pod's claim. The formulas are the ledger's; here is which of them applies when.
"""

from dataclasses import dataclass, replace

from slackwater.cluster.annotations import PermitAnnotations
from slackwater.model.ids import Instant, PodKey, PodUid
from slackwater.model.ledger.account import Account, certain_account, ordinary_account, restored_account, unheard_account
from slackwater.model.ledger.transitions import bounds_changed, migration_found, scaling_disabled, use_changed
from slackwater.model.objects import Pod
from slackwater.model.permit_annotation import Written, read_written
from slackwater.model.permits import Load
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import Vertical


@dataclass(slots=True)
class Standing:
    """`exact`: the account rests on what we know, not on a guess after a restart."""

    vertical: Vertical
    machine: PodKey | None
    exact: bool
    #: Of a plain pod: what its agent was permitted, to which its node may not have resized it yet.
    permitted: Amounts | None = None
    resized_from: Amounts | None = None  #: what it had before it last grew
    #: The most that its agent has: of what it was told, what it has not asked to have less of since. None: not heard yet.
    has: Amounts | None = None
    heard_at: Instant | None = None
    load: Load | None = None
    denied_since: Instant | None = None
    odd: bool = False  #: has asked for no multiple of its compute unit
    # How the annotation is kept: `ceilings.py` alone changes these.
    writing: Written | None = None
    doubted: tuple[Written, ...] = ()  #: of writes that failed: each may stand there all the same
    fenced: bool = True  #: nothing that a former process sent can change the annotation any more
    found_on: str | None = None  #: the text that its account rests on until its agent has been heard
    doubtful: bool = False  #: that text may have arrived late: until its agent has been heard all of it is Buffer
    urgent: bool = False  #: an agent waits for its ceiling to be written
    behind: bool = False  #: has grown into room that is still written as others'
    attempts: int = 0
    restless: int = 0  #: how often in a row its ceiling was lowered too soon
    lowered_from: Amounts | None = None  #: the ceiling before it was last lowered, until it has to be raised
    written_at: Instant = Instant(float("-inf"))
    settle_at: Instant | None = None
    settle_for: Amounts | None = None


class Standings:
    """By pod UID."""

    def __init__(self, annotations: PermitAnnotations) -> None:
        self._annotations = annotations
        self._standings: dict[PodUid, Standing] = {}
        self._of_machine: dict[PodKey, dict[PodUid, None]] = {}
        #: What a restart would count, as last worked out: each request asks for it several times.
        self._restored: dict[PodUid, tuple[Vertical, str | None, str, Account]] = {}
        #: By the name of a migration: what its source was permitted, and may not have grown to before it leaves.
        self.arriving: dict[PodKey, Amounts] = {}
        #: Until everything was listed once: what stands on record then was written by a former process.
        self.listing = True
        #: Of this process, on what it writes: above all that it found.
        self.epoch = 1

    def get(self, uid: PodUid) -> Standing | None:
        return self._standings.get(uid)

    def forget(self, uid: PodUid) -> Standing | None:
        self._annotations.forget(uid)
        self._restored.pop(uid, None)
        standing = self._standings.pop(uid, None)
        if standing is not None and standing.machine is not None:
            pods = self._of_machine[standing.machine]
            del pods[uid]
            if not pods:
                del self._of_machine[standing.machine]
        return standing

    def of_machine(self, machine: PodKey) -> list[PodUid]:
        """The counted pods of a VirtualMachine: one, or two while it migrates."""
        return list(self._of_machine.get(machine, ()))

    def put(self, uid: PodUid, namespace: str, standing: Standing) -> None:
        """The pod's standing from now on."""
        machine = standing.vertical.machine
        standing.machine = None if machine is None else PodKey(namespace, machine)
        self._standings[uid] = standing
        if standing.machine is not None:
            self._of_machine.setdefault(standing.machine, {})[uid] = None

    def _begin(self, pod: Pod, vertical: Vertical, *, exact: bool) -> None:
        self.forget(pod.uid)
        self.put(pod.uid, pod.key.namespace, Standing(vertical, machine=None, exact=exact))

    def items(self) -> list[tuple[PodUid, Standing]]:
        return list(self._standings.items())

    def __len__(self) -> int:
        return len(self._standings)

    # --- how a pod begins to count ----------------------------------------------------------------------------------------

    def placed(self, pod: Pod) -> Account:
        """We have placed the pod: nobody has permitted it more than it uses."""
        if pod.vertical is None:
            return ordinary_account(pod.kind.requests)
        self._begin(pod, pod.vertical, exact=True)
        return self.expecting(_placed_account(pod.vertical), pod)

    def expecting(self, account: Account, pod: Pod) -> Account:
        """The target of a migration also counts what its machine may have by the time it arrives, as Buffer until its agent
        is heard here."""
        certain = account.reserved.minus(account.buffer)
        reserved = certain.at_least(self._arriving(pod))
        return replace(account, reserved=reserved, buffer=reserved.minus(certain))

    def _arriving(self, pod: Pod) -> Amounts:
        vertical = pod.vertical
        if vertical is None or vertical.migration is None or not (vertical.scaling and _is_target(vertical)):
            return NOTHING
        return self.arriving.get(PodKey(pod.key.namespace, vertical.migration.name), NOTHING)

    def need(self, pod: Pod) -> Amounts:
        """What the pod will count for where it is placed."""
        return pod.need.at_least(self._arriving(pod))

    def found(self, pod: Pod, *, scheduler_name: str) -> Account:
        """The pod was found bound: before our time, or behind our back."""
        vertical = pod.vertical
        if vertical is None:
            return ordinary_account(pod.kind.requests)
        self._begin(pod, vertical, exact=not vertical.scaling or _is_target(vertical))
        standing = self._standings[pod.uid]
        standing.fenced = not self.listing or not vertical.scaling or _is_target(vertical)
        standing.found_on = self._annotations.place_of(pod).text
        account = self._restored_account(pod, vertical, standing.found_on, scheduler_name)
        return self.expecting(account, pod) if _is_target(vertical) else account

    def _found_again(self, pod: Pod, vertical: Vertical, standing: Standing, scheduler_name: str) -> Account:
        """Nobody has been heard yet, and the pod or its machine says something else than before."""
        if self.listing:  # else it is what a former process had on its way, of which nobody was told
            standing.found_on = self._annotations.place_of(pod).text
        account = self._restored_account(pod, vertical, standing.found_on, scheduler_name)
        return replace(account, buffer=account.reserved) if standing.doubtful else account

    def listed(self) -> None:
        """Everything was listed once: what is written from now on is of a new epoch."""
        self.listing = False
        found = (read_written(standing.found_on) for standing in self._standings.values())
        self.epoch = 1 + max((written.epoch for written in found if written is not None), default=0)

    def epoch_of(self, uid: PodUid) -> int | None:
        """Of the record that the pod's account rests on; None where it rests on none, or on one that is in doubt already."""
        standing = self._standings.get(uid)
        if standing is None or standing.exact or standing.doubtful:
            return None
        written = read_written(standing.found_on)
        return written.epoch if written is not None and written.pod in {"", uid} else None

    def own(self, pod: Pod) -> Written | None:
        """What is on record for this pod; None where nothing is that can be read, or what is there is another pod's."""
        return _own(read_written(self._annotations.place_of(pod).text), pod)

    def may_write(self, pod: Pod) -> bool:
        """May a record of the pod be written? A machine that has arrived elsewhere has the record of its new pod."""
        if pod.vertical is None or _is_target(pod.vertical):
            return False
        written = read_written(self._annotations.place_of(pod).text)
        return pod.vertical.migration is None or written is None or _own(written, pod) is not None

    def after_restart(self, pod: Pod, *, scheduler_name: str) -> Account:
        """What a process that knows only the API's objects counts for the pod."""
        vertical = pod.vertical
        assert vertical is not None
        text = self._annotations.place_of(pod).text
        known = self._restored.get(pod.uid)
        if known is not None and known[0] is vertical and known[1] is text and known[2] == scheduler_name:
            return known[3]
        account = self._restored_account(pod, vertical, text, scheduler_name)
        if pod.uid in self._standings:
            self._restored[pod.uid] = (vertical, text, scheduler_name, account)
        return account

    @staticmethod
    def _restored_account(pod: Pod, vertical: Vertical, text: str | None, scheduler_name: str) -> Account:
        written, migration = read_written(text), vertical.migration
        own = _own(written, pod)
        if not vertical.scaling or _is_target(vertical):
            return _placed_account(vertical)
        if own is not None:
            return restored_account(vertical, permit=own.permit, ceiling=own.ceiling)
        if migration is None and pod.kind.scheduler_name != scheduler_name:
            return _placed_account(vertical)
        account = unheard_account(vertical)
        if migration is None or written is None:
            return account
        # Its machine has arrived elsewhere, and what it shows as used may be used there.
        return replace(account, buffer=account.reserved.minus(vertical.using.at_most(vertical.min)))

    # --- how it changes ---------------------------------------------------------------------------------------------------

    def seen(self, pod: Pod, account: Account, *, scheduler_name: str) -> Account:
        """The watch shows the counted pod as it is now: the account that follows. A pod that cannot be read any more stays."""
        standing = self._standings.get(pod.uid)
        vertical = pod.vertical
        if vertical is None:
            if pod.vertical_problem is not None and standing is not None:
                return account
            self.forget(pod.uid)
            return ordinary_account(pod.kind.requests)
        if standing is None:
            return self.placed(pod)
        before, standing.vertical = standing.vertical, vertical
        if not standing.exact and standing.heard_at is None:
            found = self._found_again(pod, vertical, standing, scheduler_name)
            return found if account.accounted_for == NOTHING else migration_found(found)
        if before != vertical:
            resized = vertical.resizing is not None
            account = _resized(before, standing, account) if resized else _followed(before, vertical, account)
            if _is_target(vertical) and standing.heard_at is None:
                account = self.expecting(account, pod)
        return account


def _is_target(vertical: Vertical) -> bool:
    return vertical.migration is not None and vertical.migration.role == "target"


def _own(written: Written | None, pod: Pod) -> Written | None:
    return written if written is not None and written.pod in {"", pod.uid} else None


def _placed_account(vertical: Vertical) -> Account:
    return replace(certain_account(vertical), capacity_pressure=_withheld(vertical))


def _withheld(vertical: Vertical) -> Amounts:
    """Of a plain pod: what its spec asks and its node has put off."""
    if vertical.resizing is None or vertical.resizing.pending is None:
        return NOTHING
    return vertical.resizing.whole.minus(vertical.using).not_below_zero()


def _resized(before: Vertical, standing: Standing, account: Account) -> Account:
    """A plain pod counts by what it holds or was permitted, whichever is more; what its node puts off is pressure."""
    vertical, resizing = standing.vertical, standing.vertical.resizing
    account = replace(account, min=vertical.min, max=vertical.max)
    if resizing is not None and resizing.pending is not None:
        held = vertical.using
        if held == resizing.whole and standing.resized_from is not None:  # the node does not tell what it has
            held = held.at_most(standing.resized_from)
        withheld = resizing.whole.minus(held).not_below_zero()
        return replace(account, reserved=held, buffer=NOTHING, capacity_pressure=withheld)
    if before.resizing is not None and before.resizing.pending is not None:
        account = replace(account, capacity_pressure=NOTHING)
    certain = account.reserved.minus(account.buffer)
    reserved = vertical.using.at_least(certain if standing.permitted is None else standing.permitted)
    return replace(account, reserved=reserved, buffer=NOTHING)


def _followed(before: Vertical, after: Vertical, account: Account) -> Account:
    """A machine's annotations and labels changed (reference section 2.5)."""
    if before.scaling and not after.scaling:
        account = scaling_disabled(account)
    if (before.min, before.max) != (after.min, after.max):
        grows = after.scaling and after.migration is None
        account = (
            bounds_changed(account, minimum=after.min, maximum=after.max)
            if grows
            else replace(account, min=after.min, max=after.max)
        )
    if before.using != after.using and (not (before.scaling and after.scaling) or _is_target(after)):
        account = use_changed(account, after.using)
    return account
