"""What stands on a row of a snapshot, for tests: the snapshot itself answers by equivalence group."""

from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


def pods_on(snapshot: ClusterSnapshot, row: int) -> dict[KindId, int]:
    """How many pods of each equivalence group are on a row."""
    counts = {numbered.id: snapshot.counters.rows_of(numbered.id).get(row, 0) for numbered in snapshot.kinds.all}
    return {kind: count for kind, count in counts.items() if count}


def mounts_on(snapshot: ClusterSnapshot, row: int) -> list[str]:
    """The mounts of a row's pods, each once, as texts."""
    return sorted(str(mount) for mount, _ in snapshot.attached.counts(row))
