"""Which nodes take pods of a kind, whatever runs on them: computed once for each kind, until some node says otherwise."""

from typing import Final

from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.quarantine import Quarantine
from slackwater.fit.node_rules import admitting
from slackwater.model.columns import Mask
from slackwater.model.equivalence import Kind

#: Kinds whose node masks are kept: 5 kB each at 5,000 nodes.
_MAX_MASKS: Final = 256


class AdmittingRows:
    """Masks by kind."""

    def __init__(self, nodes: NodeTable, quarantine: Quarantine) -> None:
        self._nodes = nodes
        self._quarantine = quarantine
        #: The mask, and the node table's version that it was true of.
        self._masks: dict[Kind, tuple[int, Mask]] = {}

    def of(self, kind: Kind) -> Mask:
        """Shape (rows,)."""
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
