"""How many pods each controller wants, and the Deployment that a ReplicaSet belongs to."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from slackwater.adapters.kube.auxiliary import decode_replicas
from slackwater.adapters.kube.decode import read_meta
from slackwater.adapters.kube.eviction_facts import controller_of
from slackwater.fit.remaining_pdb_tracker import DEPLOYMENT, Scales
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.eviction_facts import Owner

#: The kinds that have a scale, with their API groups.
SCALED: Final = {"ReplicationController": "", "ReplicaSet": "apps", "StatefulSet": "apps", "Deployment": "apps"}
Read = tuple[ControllerKey, int, ControllerKey | None]


def decode_scale(kind: str, raw: bytes | msgspec.Raw) -> Read:
    """Decodes a controller: its key, how many pods it wants, and the Deployment that it belongs to. Raises ValueError."""
    meta = read_meta(raw)
    above = controller_of(meta)
    belongs = above is not None and (above.group, above.kind) == DEPLOYMENT
    return (
        (meta.namespace, Owner(SCALED[kind], kind, meta.name)),
        decode_replicas(raw).replicas,
        (meta.namespace, above) if belongs and above is not None else None,
    )


def scales_of(found: Sequence[Read], kinds: Iterable[str]) -> Scales:
    """The scales of the decoded controllers. `kinds` are the kinds that have an object in the file. The file is assumed to have
    all controllers of these kinds."""
    return Scales(
        replicas={key: wanted for key, wanted, _ in found},
        deployments={key: deployment for key, _, deployment in found if deployment is not None},
        known=frozenset((SCALED[kind], kind) for kind in kinds),
    )
