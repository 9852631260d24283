"""Which nodes accept pods of an equivalence group, whatever runs there: computed once a group, until the rules of a node
change."""

from typing import Final

from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.quarantine import Quarantine
from slackwater.fit.node_rules import admitting
from slackwater.model.columns import Mask
from slackwater.model.equivalence import Kind

#: The most masks that are kept: 5 kB each at 5,000 nodes.
_MAX_MASKS: Final = 256


class AdmittingRows:
    """The masks of accepting rows, by `Kind`."""

    def __init__(self, nodes: NodeTable, quarantine: Quarantine) -> None:
        self._nodes = nodes
        self._quarantine = quarantine
        #: The mask, and the `rules_version` of the node table that it is based on.
        self._masks: dict[Kind, tuple[int, Mask]] = {}

    def of(self, kind: Kind) -> Mask:
        """Which rows accept pods of the group and are not quarantined, shape (rows,)."""
        version = self._nodes.rules_version
        known = self._masks.get(kind)
        if known is not None and known[0] == version:
            return known[1]
        if len(self._masks) >= _MAX_MASKS:
            self._masks.clear()
        mask = admitting(kind, self._nodes.facts)
        if len(self._quarantine):
            mask = mask.copy()
            mask[self._quarantine.rows] = False
        self._masks[kind] = (version, mask)
        return mask
