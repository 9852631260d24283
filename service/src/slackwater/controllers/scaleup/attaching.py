"""How many volumes a new node of a group can attach: what the CSINodes of the group's nodes say, else the template's own word.

Without it a new node would seem to attach any number of volumes, and a plan would buy too few nodes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from slackwater.controllers.scaleup.groups import Template
from slackwater.model.storage import CsiNode


def attaching(template: Template | None, csi_nodes: Sequence[CsiNode], *, said: CsiNode | None) -> Template | None:
    """The template with what its nodes can attach. `csi_nodes` are those of the group's nodes that have started."""
    return None if template is None else replace(template, node=replace(template.node, csi=usual_csi(csi_nodes, said)))


def usual_csi(csi_nodes: Sequence[CsiNode], said: CsiNode | None) -> CsiNode | None:
    """For each driver the limit that most nodes report, of equally frequent ones the smallest. None where nobody knows.

    A driver that no node reports counts as `said`. Nodes on which a driver is still starting do not report it.
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
    """Larger for smaller limits."""
    return float("-inf") if limit is None else -float(limit)
