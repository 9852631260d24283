"""ImageLocality: prefers nodes that already have the pod's images, above all large ones.

An image counts by its size times the share of nodes that have it. So an image that only a few nodes have does not draw all its
pods to these nodes. Image volumes count since 1.36.
"""

from typing import Final

import numpy as np

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.kubernetes_rules import Rule
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup

_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST_A_CONTAINER: Final = 1000 * _MIB


def images_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.kind.images) and any(size for size, _ in _images(snapshot, kind))


def _images(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[int, Mask]]:
    """The size of each of the pod's images, and which rows have it."""
    volumes = kind.asks.image_volumes if snapshot.follows(Rule.IMAGE_VOLUMES_SCORED) else ()
    return [snapshot.facts.image(_full_name(image)) for image in (*kind.kind.images, *volumes)]


def score_image_locality(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    counted = len(kind.kind.images)
    if kind.asks.image_volumes and snapshot.follows(Rule.IMAGE_VOLUMES_COUNTED):
        counted += len(kind.asks.image_volumes)
    most = _MOST_A_CONTAINER * counted
    if not most:
        return np.zeros(len(rows), np.int64)
    present = np.zeros(len(rows), np.int64)
    images = _images(snapshot, kind)
    if not any(size for size, _ in images):
        return present
    n_nodes = int(snapshot.facts.live[: snapshot.n_rows].sum())
    for size, has_it in images:
        spread = float(has_it.sum()) / float(n_nodes)
        present += int(float(size) * spread) * has_it[rows]
    return HIGHEST * (np.clip(present, _LEAST, most) - _LEAST) // (most - _LEAST)


def _full_name(image: str) -> str:
    """The image's name, with the tag `latest` where it has neither tag nor digest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
