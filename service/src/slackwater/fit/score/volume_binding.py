"""VolumeBinding: prefers nodes whose storage the pod's volumes use least.

For each storage class, what the pod's claims request is compared with the room that they take it from: the existing volumes
that they would be bound to, or, if there are none of these, the room that the driver publishes for the node. Scores by default
in 1.37 (feature gate StorageCapacityScoring).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.filter.volume_binding import VolumeChoice, choices_of
from slackwater.fit.score.node_resources_fit import by_utilization
from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.storage import Claim
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.storage_table import NO_VOLUME

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
    choices = choices_of(snapshot, kind, rows)
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
