"""Claims must be bound to volumes that the node reaches, or be bindable there (kube-scheduler's VolumeBinding).

Bound claims: the volume's node affinity accepts the node. Claims that wait for their first consumer: an available volume
fits, or the class can make one there (allowed topologies; room, where the driver publishes it). What decides is the same
on most nodes, so rows are put together by what they accept, and each group is judged once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slackwater.model.columns import Codes, Mask
from slackwater.model.ids import NodeName, Row
from slackwater.model.particulars import ClaimMount
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, StorageClass, Volume
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.nodefacts import ABSENT
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.matching_volume import find_volume
from slackwater.simulate.predicates.node_affinity import rows_of_requirement, rows_of_terms
from slackwater.simulate.predicates.refusal import Refusal
from slackwater.simulate.predicates.selection import Selection

_WAIT: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
#: In kube-scheduler's order; the first of a row is its code.
_ORDER: Final = (Reason.VOLUME_NODE_CONFLICT, Reason.VOLUME_BIND_CONFLICT, Reason.STORAGE_SHORT, Reason.VOLUME_NOT_FOUND)


def refuse_volume_binding(picture: Picture, kind: Numbered) -> Refusal | None:
    if picture.storage.claims is None:
        return None
    for mount in kind.asks.claims:
        problem = _problem(picture, kind, mount)
        if problem is not None:
            return Refusal(Reason.CLAIM_UNUSABLE, problem)
    unbound = [claim for claim in claims_of(picture, kind) if not claim.is_bound and not waits(picture, claim)]
    if any(claim.volume or not claim.storage_class or picture.storage.classes is not None for claim in unbound):
        return Refusal(Reason.CLAIM_UNBOUND, MEANINGS[Reason.CLAIM_UNBOUND].text)
    return None


def _problem(picture: Picture, kind: Numbered, mount: ClaimMount) -> str | None:
    namespace = kind.kind.namespace
    claim = (picture.storage.claims or {}).get((namespace, mount.claim))
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


def claims_of(picture: Picture, kind: Numbered) -> list[Claim]:
    claims = picture.storage.claims or {}
    keys = [(kind.kind.namespace, mount.claim) for mount in kind.asks.claims]
    return [claims[key] for key in keys if key in claims]


def waits(picture: Picture, claim: Claim) -> bool:
    """Is the claim bound only when a pod that uses it has a node?"""
    storage_class = (picture.storage.classes or {}).get(claim.storage_class)
    return storage_class is not None and storage_class.binding_mode == _WAIT and not claim.volume


@dataclass(frozen=True, slots=True)
class Bindings:
    """What would be bound on a row: claims to volumes that exist, and claims for which one is made there."""

    chosen: tuple[tuple[Claim, Volume], ...]
    made: tuple[Claim, ...]


def judge_volume_binding(picture: Picture, kind: Numbered, rows: Selection) -> Codes:
    codes = np.zeros(picture.n_rows, np.uint8)
    for members, reasons, _ in _judged(picture, kind, np.arange(picture.n_rows)[rows]):
        if reasons:
            codes[members] = reasons[0]
    return codes[rows]


def binding_reasons(picture: Picture, kind: Numbered, row: Row) -> list[str]:
    """kube-scheduler's words for why the row will not do."""
    ((_, reasons, _),) = _judged(picture, kind, np.array([row]))
    return [MEANINGS[reason].text for reason in reasons]


def bindings_on(picture: Picture, kind: Numbered, row: Row) -> Bindings:
    """What would be bound if a pod of the kind went there, which must be possible."""
    ((_, _, bindings),) = _judged(picture, kind, np.array([row]))
    return bindings


def _judged(
    picture: Picture, kind: Numbered, rows: np.typing.NDArray[np.intp]
) -> Iterator[tuple[np.typing.NDArray[np.intp], tuple[Reason, ...], Bindings]]:
    """Groups of rows that accept the same, with the reasons against them (none: it can be bound there)."""
    if not len(rows):
        return
    claims = claims_of(picture, kind)
    bound = [claim for claim in claims if claim.is_bound]
    waiting = [claim for claim in claims if waits(picture, claim)]
    question = _Question(picture, bound, waiting)
    accepted = question.accepted(rows)
    if not len(accepted):
        yield rows, *question.answer(())
        return
    packed = np.packbits(accepted, axis=0)
    _, first, where = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    for group, index in enumerate(first.tolist()):
        yield rows[where.ravel() == group], *question.answer(tuple(accepted[:, index].tolist()))


class _Question:
    """One pod's claims. `accepted` asks the rows everything that can differ between them; `answer` needs no more."""

    def __init__(self, picture: Picture, bound: list[Claim], waiting: list[Claim]) -> None:
        self._picture = picture
        self._bound = bound
        self._selected = [claim for claim in waiting if claim.selected_node is not None]
        # Smallest first, as kube-scheduler looks for volumes.
        self._unselected = sorted((c for c in waiting if c.selected_node is None), key=lambda claim: claim.size or 0)
        classes = {claim.storage_class for claim in self._unselected}
        self._volumes = [v for v in (picture.storage.volumes or {}).values() if v.storage_class in classes]

    def accepted(self, rows: np.typing.NDArray[np.intp]) -> Mask:
        """(questions, rows): bound volumes reached; selected nodes met; volumes reached; then topology and room by claim."""
        masks = [self._reached(claim.volume, rows) for claim in self._bound]
        row_of = self._picture.facts.row_of
        masks += [rows == row_of.get(NodeName(c.selected_node or ""), ABSENT) for c in self._selected]
        masks += [self._reach(volume, rows) for volume in self._volumes]
        for claim in self._selected + self._unselected:
            storage_class = self._class(claim)
            masks.append(_topology(self._picture, storage_class, rows))
            masks.append(self._room(claim, storage_class, rows))
        return np.array(masks, np.bool_)

    def answer(self, accepted: tuple[bool, ...]) -> tuple[tuple[Reason, ...], Bindings]:
        parts = iter(accepted)
        bound_met, bound_found = self._bound_answer([next(parts) for _ in self._bound])
        selected = [next(parts) for _ in self._selected]
        reached = [next(parts) for _ in self._volumes]
        rest = [(next(parts), next(parts)) for _ in self._selected + self._unselected]
        can_make = {c.name: pair for c, pair in zip(self._selected + self._unselected, rest, strict=True)}
        found, roomy, bindings = self._unbound_answer(selected, reached, can_make)
        met = (bound_met, found, roomy, bound_found)
        return tuple(reason for reason, ok in zip(_ORDER, met, strict=True) if not ok), bindings

    def _bound_answer(self, reached: list[bool]) -> tuple[bool, bool]:
        """(node affinity met, volumes exist): the first claim that fails decides."""
        volumes = self._picture.storage.volumes
        for claim, accepts in zip(self._bound, reached, strict=True):
            if volumes is not None and claim.volume not in volumes:
                return True, False
            if not accepts:
                return False, True
        return True, True

    def _unbound_answer(
        self, selected: list[bool], reached: list[bool], can_make: dict[str, tuple[bool, bool]]
    ) -> tuple[bool, bool, Bindings]:
        if not all(selected):
            return False, True, Bindings((), ())
        taken: set[str] = set()
        chosen: list[tuple[Claim, Volume]] = []
        to_make = list(self._selected)
        reach = dict(zip((volume.name for volume in self._volumes), reached, strict=True))
        for claim in self._unselected:
            volume = find_volume(claim, self._volumes, reach, taken)
            if volume is None:
                to_make.append(claim)
            else:
                taken.add(volume.name)
                chosen.append((claim, volume))
        for claim in to_make:
            possible, roomy = can_make[claim.name]
            if not (possible and roomy):
                return possible, not possible, Bindings((), ())
        return True, True, Bindings(tuple(chosen), tuple(to_make))

    def _class(self, claim: Claim) -> StorageClass:
        return (self._picture.storage.classes or {})[claim.storage_class]

    def _reached(self, volume: str, rows: np.typing.NDArray[np.intp]) -> Mask:
        found = (self._picture.storage.volumes or {}).get(volume)
        if found is None:
            return np.ones(len(rows), np.bool_)
        reached = self._reach(found, rows)
        if not found.plugin or found.migrated_terms == found.node_terms:
            return reached
        csi_nodes, nodes = self._picture.storage.csi_nodes or {}, self._picture.facts.nodes
        handed_over = np.array(
            [(n := csi_nodes.get(nodes[row].name)) is not None and found.plugin in n.migrated for row in rows.tolist()],
            np.bool_,
        )
        return np.where(handed_over, self._reach(replace(found, node_terms=found.migrated_terms), rows), reached)

    def _reach(self, volume: Volume, rows: np.typing.NDArray[np.intp]) -> Mask:
        if volume.node_terms is None:
            return np.ones(len(rows), np.bool_)
        # kube-scheduler tells a volume's affinity no more of a node than its labels.
        return rows_of_terms(self._picture.facts, volume.node_terms, rows, fields=False)

    def _room(self, claim: Claim, storage_class: StorageClass, rows: np.typing.NDArray[np.intp]) -> Mask:
        """Where published room suffices; everywhere for drivers that publish none, and where it is not known."""
        storage = self._picture.storage
        driver = (storage.drivers or {}).get(storage_class.provisioner)
        if claim.size is None or driver is None or not driver.tracks_capacity or storage.capacities is None:
            return np.ones(len(rows), np.bool_)
        roomy = np.zeros(len(rows), np.bool_)
        for capacity in storage.capacities:
            if capacity.storage_class == storage_class.name and (capacity.largest or -1) >= claim.size:
                roomy |= _selected_rows(self._picture, capacity.topology, rows)
        return roomy


def _selected_rows(picture: Picture, selector: tuple[Requirement, ...] | None, rows: np.typing.NDArray[np.intp]) -> Mask:
    selected = np.full(len(rows), selector is not None, np.bool_)
    for requirement in selector or ():
        selected &= rows_of_requirement(picture.facts, requirement, rows)
    return selected


def _topology(picture: Picture, storage_class: StorageClass, rows: np.typing.NDArray[np.intp]) -> Mask:
    """Where the class can make volumes at all."""
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return np.zeros(len(rows), np.bool_)
    if not storage_class.topologies:
        return np.ones(len(rows), np.bool_)
    possible = np.zeros(len(rows), np.bool_)
    for term in storage_class.topologies:
        if term:
            requirements = tuple(Requirement(key, "In", values) for key, values in term)
            possible |= _selected_rows(picture, requirements, rows)
    return possible
