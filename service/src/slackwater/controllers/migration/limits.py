"""Limits on how many migrations run at the same time."""

from collections import Counter
from collections.abc import Iterable

from slackwater.controllers.migration.policy import MigrationPolicy
from slackwater.model.ids import NodeName

#: Source and target of a migration; each is None if not known.
Route = tuple[NodeName | None, NodeName | None]


def room_at_source(running: Iterable[Route], source: NodeName, policy: MigrationPolicy) -> bool:
    """May one more migration leave `source`?"""
    sources = [route[0] for route in running]
    return len(sources) < policy.max_concurrent and sources.count(source) < policy.max_per_source


def full_targets(running: Iterable[Route], policy: MigrationPolicy) -> set[NodeName]:
    """The nodes where no more migrations may arrive."""
    arriving = Counter(target for _, target in running if target is not None)
    return {node for node, count in arriving.items() if count >= policy.max_per_target}
