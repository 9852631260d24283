"""The messages of refusals, in the words of kube-scheduler's plug-ins."""

from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.plugins import Refusal
from slackwater.fit.plugins.dynamic_resources import (
    dynamic_resources_reasons,
)
from slackwater.fit.plugins.node_resources import short_resources
from slackwater.fit.plugins.single_facts import features_text
from slackwater.fit.plugins.volume_binding import (
    binding_reasons,
)
from slackwater.fit.plugins.volume_rules import missing_driver_text
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


def reasons(snapshot: ClusterSnapshot, kind: KindId, row: Row) -> list[str]:
    """kube-scheduler's messages that say why a row is not feasible; empty if it is feasible."""
    verdicts = feasible(snapshot, kind)
    return words(snapshot, kind, row, Reason(verdicts.codes[row]), verdicts.refusal)


def words(snapshot: ClusterSnapshot, kind: KindId, row: Row, reason: Reason, refusal: Refusal | None) -> list[str]:
    """kube-scheduler's messages for a verdict that the caller already has. `refusal` is that of the pod itself, or None."""
    if refusal is not None:
        return [refusal.text]
    numbered = snapshot.of(kind)
    match reason:
        case Reason.OK:
            found: list[str] = []
        case Reason.RESOURCES_SHORT | Reason.RESOURCES_ABOVE_NODE:
            found = short_resources(snapshot, numbered, row)
        case Reason.VOLUME_NODE_CONFLICT | Reason.VOLUME_BIND_CONFLICT | Reason.STORAGE_SHORT | Reason.VOLUME_NOT_FOUND:
            found = binding_reasons(snapshot, numbered, row)
        case Reason.CSI_DRIVER_MISSING:
            found = [missing_driver_text(snapshot, numbered, row)]
        case Reason.NODE_FEATURES:
            found = [features_text(snapshot, numbered, row)]
        case Reason.DEVICES_NOT_MODELLED:
            found = dynamic_resources_reasons(snapshot, numbered, row, reason)
        case _:
            found = [reason.text]
    return found
