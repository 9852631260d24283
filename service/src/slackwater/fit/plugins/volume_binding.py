"""kube-scheduler's VolumeBinding: claims must be bound to volumes that the node can reach, or be bindable there.

Bound claims: the volume's node affinity must accept the node. Claims that wait for their first consumer: an available volume
must fit, or the class must be able to provision one there (allowed topologies; room, if the driver publishes it).

Pods whose claims need the same of nodes share one answer (`binding_part`). Its key is not which claims they have, but which
nodes can reach their volumes: the same few sets of nodes can reach nearly all volumes of a cluster.

`bindings_on` returns what the claims would be bound to on a row; `fit.assumed_claims` assumes it, so that the next pod finds
these volumes taken.

The score prefers nodes whose storage the pod's volumes use least. For each storage class it compares what the pod's claims
request with the room that they take it from: the existing volumes that they would be bound to, or, if there are none of these,
the room that the driver publishes for the node. It counts by default in 1.37 (feature gate StorageCapacityScoring).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate, Refusal
from slackwater.fit.plugins.node_resources import by_utilization
from slackwater.fit.scoring import HIGHEST
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.pod_constraints import ClaimMount
from slackwater.model.reasons import Reason
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, StorageClass, Volume
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT
from slackwater.snapshot.node_selector import Alternatives, alternatives, selected_rows
from slackwater.snapshot.row_journal import Selection
from slackwater.snapshot.storage_table import NO_VOLUME, shape_of

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
#: The codes in kube-scheduler's order; the first that applies to a row is the row's code.
_ORDER: Final = (Reason.VOLUME_NODE_CONFLICT, Reason.VOLUME_BIND_CONFLICT, Reason.STORAGE_SHORT, Reason.VOLUME_NOT_FOUND)


def refuse_volume_binding(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    if snapshot.volumes.objects.claims is None:
        return None
    for mount in kind.asks.claims:
        problem = _problem(snapshot, kind, mount)
        if problem is not None:
            return Refusal(Reason.CLAIM_UNUSABLE, problem)
    unbound = [claim for claim in claims_of(snapshot, kind) if not claim.is_bound and not snapshot.volumes.waits(claim)]
    classes_known = snapshot.volumes.objects.classes is not None
    if any(claim.volume or not claim.storage_class or classes_known for claim in unbound):
        return Refusal(Reason.CLAIM_UNBOUND, Reason.CLAIM_UNBOUND.text)
    return None


def _problem(snapshot: ClusterSnapshot, kind: NumberedGroup, mount: ClaimMount) -> str | None:
    namespace = kind.kind.namespace
    claim = snapshot.volumes.claim((namespace, mount.claim))
    if claim is None:
        if mount.owner is None:
            return f'persistentvolumeclaim "{mount.claim}" not found'
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{mount.claim}"'
    if claim.phase == "Lost":
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if mount.owner is not None and claim.owner != mount.owner:
        return f"PVC {namespace}/{claim.name} was not created for pod {namespace}/{mount.pod} (pod is not owner)"
    return None


def claims_of(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[Claim]:
    found = (snapshot.volumes.claim((kind.kind.namespace, mount.claim)) for mount in kind.asks.claims)
    return [claim for claim in found if claim is not None]


# --- what pods ask ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reached:
    """The nodes that can reach a bound volume: those that `by` selects, but on nodes that have migrated `plugin` to CSI those
    that `migrated` selects."""

    by: Alternatives
    plugin: str
    migrated: Alternatives


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A claim that waits for its first consumer. `size` is None if it makes no difference on any node. `node` is the selected
    node.

    `like` is None if no existing volume suits the claim. Otherwise it has the fields of the claim that decide which volumes
    suit it, and the volumes that are reserved for it.
    """

    storage_class: str
    size: int | None
    node: str | None
    like: object


@dataclass(frozen=True, slots=True)
class _ClaimsAsked:
    """What a pod's claims need of a node. In `bound`, None stands for a volume that does not exist."""

    bound: tuple[_Reached | None, ...]
    waiting: tuple[_Wanted, ...]


def binding_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> _ClaimsAsked | None:
    """What the predicate reads of a pod of the group, as the key of cached verdicts: equal parts have equal verdicts on every
    row. None for pods without claims."""
    if not kind.asks.claims:
        return None
    bound, waiting = _split(snapshot, kind)
    return _ClaimsAsked(
        tuple(_reached(snapshot, claim.volume) for claim in bound), tuple(_wanted(snapshot, claim) for claim in waiting)
    )


def gets_new_volumes(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether a volume would be made for each claim of the pod, whatever its node, because no existing volume suits any."""
    bound, waiting = _split(snapshot, kind)
    wanted = [_wanted(snapshot, claim) for claim in waiting]
    return not bound and all(each.node is None and each.like is None for each in wanted)


def binding_stamp(snapshot: ClusterSnapshot, kind: NumberedGroup) -> tuple[int, ...]:
    """Version numbers that change whenever a volume that the group's claims may choose is taken or becomes free."""
    _, waiting = _split(snapshot, kind)
    return tuple(snapshot.volumes.available(claim.storage_class).version for claim in waiting if claim.selected_node is None)


def _split(snapshot: ClusterSnapshot, kind: NumberedGroup) -> tuple[list[Claim], list[Claim]]:
    """The pod's bound claims, and its waiting claims.

    Waiting claims are in the order in which kube-scheduler looks for volumes: first claims whose node is selected, then the
    others by size, the smallest first.
    """
    bound, waiting = [], []
    for claim in claims_of(snapshot, kind):
        if claim.is_bound:
            bound.append(claim)
        elif snapshot.volumes.waits(claim):
            waiting.append(claim)
    waiting.sort(key=lambda claim: -1 if claim.selected_node is not None else claim.size or 0)
    return bound, waiting


def _reached(snapshot: ClusterSnapshot, name: str) -> _Reached | None:
    volume = snapshot.volumes.volume(name)
    if volume is None:
        return None if snapshot.volumes.objects.volumes is not None else _Reached(((),), "", ())
    by = alternatives(volume.node_terms)
    if not volume.plugin or volume.migrated_terms == volume.node_terms:
        return _Reached(by, "", ())
    return _Reached(by, volume.plugin, alternatives(volume.migrated_terms))


def _wanted(snapshot: ClusterSnapshot, claim: Claim) -> _Wanted:
    table = snapshot.volumes
    sized = table.tracks_room(_class(snapshot, claim))
    like: object = None
    if claim.selected_node is None:
        reserved = table.reserved_for(claim)
        if reserved or table.available(claim.storage_class).suit(claim):
            like = (claim.size, *shape_of(claim), tuple(volume.name for volume in reserved))
    return _Wanted(claim.storage_class, claim.size if sized else None, claim.selected_node, like)


def _class(snapshot: ClusterSnapshot, claim: Claim) -> StorageClass:
    found = snapshot.volumes.storage_class(claim.storage_class)
    assert found is not None  # the claim waits for its first consumer because its class says so
    return found


# --- answers ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bindings:
    """What would be bound if a pod went to a row: `chosen` are claims with the existing volumes for them, `made` are claims
    whose volumes would be provisioned."""

    chosen: tuple[tuple[Claim, Volume], ...]
    made: tuple[Claim, ...]


def judge_volume_binding(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    wanted = np.arange(snapshot.n_rows)[rows]
    bound, waiting = _split(snapshot, kind)
    against_bound = _judge_bound(snapshot, bound, wanted)
    against_waiting = _judge_waiting(snapshot, waiting, wanted, _choices(snapshot, waiting, wanted))
    codes = np.zeros(len(wanted), np.uint8)
    for reason in reversed(_ORDER):
        codes[(against_bound == reason) | (against_waiting == reason)] = reason
    return codes


def binding_reasons(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> list[str]:
    """kube-scheduler's messages that say why the row is not feasible."""
    rows = np.array([row], np.intp)
    bound, waiting = _split(snapshot, kind)
    found = {int(_judge_bound(snapshot, bound, rows)[0])}
    found.add(int(_judge_waiting(snapshot, waiting, rows, _choices(snapshot, waiting, rows))[0]))
    return [reason.text for reason in _ORDER if reason in found]


def bindings_on(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> Bindings:
    """What would be bound if a pod of the equivalence group went to the row, which must be feasible."""
    _, waiting = _split(snapshot, kind)
    chosen: list[tuple[Claim, Volume]] = []
    made: list[Claim] = []
    for claim, choice in zip(waiting, _choices(snapshot, waiting, np.array([row], np.intp)), strict=True):
        volume = choice.volumes.get(int(choice.numbers[0]))
        if volume is None:
            made.append(claim)
        else:
            chosen.append((claim, volume))
    return Bindings(tuple(chosen), tuple(made))


def _judge_bound(snapshot: ClusterSnapshot, bound: list[Claim], rows: Rows) -> Codes:
    """The codes of the rows for the bound claims; the first claim that fails decides."""
    codes = np.zeros(len(rows), np.uint8)
    for claim in bound:
        reached = _reached(snapshot, claim.volume)
        if reached is None:
            codes[codes == Reason.OK] = Reason.VOLUME_NOT_FOUND
        else:
            codes[(codes == Reason.OK) & ~_rows_reaching(snapshot, reached, rows)] = Reason.VOLUME_NODE_CONFLICT
    return codes


def _rows_reaching(snapshot: ClusterSnapshot, reached: _Reached, rows: Rows) -> Mask:
    found = selected_rows(snapshot.facts, reached.by, rows)
    if not reached.plugin:
        return found
    # Nodes that have migrated the in-tree plug-in to CSI.
    csi_nodes = (snapshot.volumes.csi_node(snapshot.facts.nodes[row]) for row in rows.tolist())
    handed_over = np.array([node is not None and reached.plugin in node.migrated for node in csi_nodes], np.bool_)
    return np.where(handed_over, selected_rows(snapshot.facts, reached.migrated, rows), found)


def _judge_waiting(snapshot: ClusterSnapshot, waiting: list[Claim], rows: Rows, choices: Sequence["VolumeChoice"]) -> Codes:
    """The codes of the rows for the waiting claims. A row that is not the selected node is refused first; then the first claim
    that can neither be bound nor provisioned decides."""
    codes = np.zeros(len(rows), np.uint8)
    row_of = snapshot.facts.row_of
    for claim in waiting:
        if claim.selected_node is not None:
            codes[rows != row_of.get(NodeName(claim.selected_node), ABSENT)] = Reason.VOLUME_BIND_CONFLICT
    for claim, choice in zip(waiting, choices, strict=True):
        storage_class = _class(snapshot, claim)
        to_make = choice.numbers == NO_VOLUME
        if to_make.any():
            codes[(codes == Reason.OK) & to_make & ~_possible(snapshot, storage_class, rows)] = Reason.VOLUME_BIND_CONFLICT
            codes[(codes == Reason.OK) & to_make & ~_has_capacity(snapshot, claim, storage_class, rows)] = Reason.STORAGE_SHORT
    return codes


def _possible(snapshot: ClusterSnapshot, storage_class: StorageClass, rows: Rows) -> Mask:
    """Which of `rows` allow the class to provision volumes, whatever their size."""
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return np.zeros(len(rows), np.bool_)
    if not storage_class.topologies:
        return np.ones(len(rows), np.bool_)
    allowed = (tuple(Requirement(key, "In", values) for key, values in term) for term in storage_class.topologies if term)
    return selected_rows(snapshot.facts, tuple(allowed), rows)


def _has_capacity(snapshot: ClusterSnapshot, claim: Claim, storage_class: StorageClass, rows: Rows) -> Mask:
    """Which of `rows` have enough published room for the claim. All of them, if the driver publishes no room or the claim's
    size is unknown."""
    if claim.size is None or not snapshot.volumes.tracks_room(storage_class):
        return np.ones(len(rows), np.bool_)
    return snapshot.volumes.rows_with_room(storage_class, claim.size, snapshot.facts, rows)


# --- choices ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """The volume that a claim would get on each row. `numbers` has for each row a key of `volumes`, or NO_VOLUME if a new
    volume would be provisioned."""

    numbers: Rows
    volumes: Mapping[int, Volume]


def _choices(snapshot: ClusterSnapshot, waiting: list[Claim], rows: Rows) -> list[VolumeChoice]:
    """For each claim in order, the volume that it chooses on each row. A claim does not choose volumes that an earlier claim
    took on the same row."""
    choosers: dict[str, _Chooser] = {}
    found: list[VolumeChoice] = []
    for claim in waiting:
        if claim.selected_node is not None:
            found.append(VolumeChoice(np.full(len(rows), NO_VOLUME, np.intp), {}))
        else:
            if claim.storage_class not in choosers:
                choosers[claim.storage_class] = _Chooser(snapshot, claim.storage_class, rows)
            found.append(choosers[claim.storage_class].choose(claim))
    return found


class _Chooser:
    """Chooses volumes for one pod's claims of one storage class. `_volumes` are the chosen volumes by number."""

    def __init__(self, snapshot: ClusterSnapshot, storage_class: str, rows: Rows) -> None:
        self._snapshot = snapshot
        self._available = snapshot.volumes.available(storage_class)
        self._rows = rows
        self._taken: list[Rows] = []
        self._volumes: dict[int, Volume] = {}
        #: Numbers of reserved volumes that are not among the available ones.
        self._reserved: dict[str, int] = {}

    def choose(self, claim: Claim) -> VolumeChoice:
        """Chooses the volume for the claim on each row: one that is reserved for the claim, or NO_VOLUME if the row's node
        cannot reach that one. If none is reserved, the smallest that fits."""
        numbers = np.full(len(self._rows), NO_VOLUME, np.intp)
        undecided = np.ones(len(self._rows), np.bool_)
        for volume in self._snapshot.volumes.reserved_for(claim):
            number = self._number(volume)
            here = undecided & ~np.any([earlier == number for earlier in self._taken], axis=0)
            numbers[here & selected_rows(self._snapshot.facts, alternatives(volume.node_terms), self._rows)] = number
            undecided &= ~here
        if undecided.any() and self._available.suit(claim):
            free = self._available.first_free(claim, self._snapshot.facts, self._rows, self._taken)
            numbers[undecided] = free[undecided]
            self._volumes.update((number, self._available.volumes[number]) for number in set(free.tolist()) - {NO_VOLUME})
        self._taken.append(numbers)
        return VolumeChoice(numbers, self._volumes)

    def _number(self, volume: Volume) -> int:
        number = self._available.number(volume.name)
        if number == NO_VOLUME:  # `len(volumes)` itself means none
            number = self._reserved.setdefault(volume.name, len(self._available.volumes) + 1 + len(self._reserved))
        self._volumes[number] = volume
        return number


#: Points of utilization (0..100, rising) and score (0..10).
Shape = tuple[tuple[int, int], ...]
#: The default shape: less use scores higher.
EMPTIEST_FIRST: Final[Shape] = ((0, 10), (100, 0))


@dataclass(slots=True)
class _Use:
    """What claims of one storage class request on each row, and the room that they take it from. It applies only to the rows of
    `there`."""

    there: Mask
    requested: Int64
    capacity: Int64

    def scores(self, of_utilization: Int64) -> Int64:
        full = (self.capacity == 0) | (self.requested > self.capacity)
        share = np.where(full, HIGHEST, self.requested * HIGHEST // np.maximum(self.capacity, 1))
        return of_utilization[np.where(self.there, share, 0)]


def volumes_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.asks.claims) and snapshot.volumes.objects.claims is not None


def score_volume_binding(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows, shape: Shape = EMPTIEST_FIRST) -> Int64:
    if not volumes_differ(snapshot, kind):
        return np.zeros(len(rows), np.int64)
    _, waiting = _split(snapshot, kind)
    choices = list(zip(waiting, _choices(snapshot, waiting, rows), strict=True))
    existing, published = _of_existing(choices, len(rows)), _of_published(snapshot, choices, rows)
    bound = np.any([use.there for use in existing.values()] or [np.zeros(len(rows), np.bool_)], axis=0)
    of_utilization = by_utilization(shape)
    total, classes = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for uses, counted in ((existing, bound), (published, ~bound)):
        for use in uses.values():
            here = use.there & counted
            total += np.where(here, use.scores(of_utilization), 0)
            classes += here
    found: Int64 = np.floor(total / np.maximum(classes, 1) + 0.5).astype(np.int64)
    return found


def _of_existing(choices: list[tuple[Claim, VolumeChoice]], n_rows: int) -> dict[str, _Use]:
    """The use of existing volumes that the claims would be bound to, by storage class."""
    found: dict[str, _Use] = {}
    for claim, choice in choices:
        for number in set(choice.numbers.tolist()) - {NO_VOLUME}:
            volume, here = choice.volumes[number], choice.numbers == number
            class_name = volume.storage_class if volume.spec_class is None else volume.spec_class
            use = found.setdefault(class_name, _nothing(n_rows))
            use.there |= here
            use.requested[here] += claim.size or 0
            use.capacity[here] += volume.capacity
    return found


def _of_published(snapshot: ClusterSnapshot, choices: list[tuple[Claim, VolumeChoice]], rows: Rows) -> dict[str, _Use]:
    """The use of published room from which new volumes would be made, by storage class."""
    found: dict[str, _Use] = {}
    for claim, choice in choices:
        storage_class = snapshot.volumes.storage_class(claim.storage_class)
        if storage_class is None or claim.size is None or not snapshot.volumes.tracks_room(storage_class):
            continue
        here = choice.numbers == NO_VOLUME
        use = found.setdefault(claim.storage_class, _nothing(len(rows)))
        use.there |= here
        use.requested[here] += claim.size
        # Not the sum, since all claims of a class take from the same room. The last claim's room is used, as in kube-scheduler.
        use.capacity[here] = snapshot.volumes.room(storage_class, claim.size, snapshot.facts, rows)[here]
    return found


def _nothing(n_rows: int) -> _Use:
    return _Use(np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64))


VOLUME_BINDING: Final = Predicate(
    name="VolumeBinding",
    part=binding_part,
    judge=judge_volume_binding,
    reads="facts",
    stamp=binding_stamp,
    refuse=refuse_volume_binding,
)
