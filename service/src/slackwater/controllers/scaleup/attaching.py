"""Volume limits of new nodes: how many volumes a new node of a group can attach, by the CSINodes of the group's nodes, else by
the template.

Without a limit a new node would seem to attach any number of volumes, and a plan would add too few nodes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from slackwater.controllers.scaleup.groups import Template
from slackwater.model.storage import CsiNode


def attaching(template: Template | None, csi_nodes: Sequence[CsiNode], *, said: CsiNode | None) -> Template | None:
    """The template with the volume limits of its nodes. `csi_nodes` are those of the group's nodes that have started."""
    return None if template is None else replace(template, node=replace(template.node, csi=usual_csi(csi_nodes, said)))


def usual_csi(csi_nodes: Sequence[CsiNode], said: CsiNode | None) -> CsiNode | None:
    """For each driver the limit that most nodes report; the smallest of equally frequent ones. None if no limit is known.

    For a driver that no node reports `said` counts. Nodes on which a driver is still starting do not report it.
    """
    reported: dict[str, Counter[int | None]] = {}
    for csi_node in csi_nodes:
        for driver, limit in csi_node.drivers:
            reported.setdefault(driver, Counter())[limit] += 1
    limits = {} if said is None else dict(said.drivers)
    limits |= {driver: max(counts, key=lambda limit: (counts[limit], _tightness(limit))) for driver, counts in reported.items()}
    migrated = Counter(plugin for csi_node in csi_nodes for plugin in csi_node.migrated)
    usual = tuple(sorted(plugin for plugin, count in migrated.items() if 2 * count > len(csi_nodes)))
    return CsiNode(name="", drivers=tuple(sorted(limits.items())), migrated=usual) if limits or usual else None


def _tightness(limit: int | None) -> float:
    """A number that is larger for smaller limits."""
    return float("-inf") if limit is None else -float(limit)
