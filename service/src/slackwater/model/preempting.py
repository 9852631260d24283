"""The annotation of a preemptor: the part of its preemption that outlives this process.

Text of `slackwater.dev/preempting`: `{"node": "n", "victims": ["uid", ...]}`. It is written before the first victim is deleted.
"""

import json
from dataclasses import dataclass

from slackwater.model.ids import NodeName, PodUid


@dataclass(frozen=True, slots=True)
class Preempting:
    """A preemption under way: the node where room is made, and the pods that have to leave it."""

    node: NodeName
    victims: tuple[PodUid, ...]

    def text(self) -> str:
        return json.dumps({"node": self.node, "victims": list(self.victims)}, separators=(",", ":"))


def read_preempting(text: str | None) -> Preempting | None:
    """The content of the annotation; None where it is missing or cannot be read."""
    if text is None:
        return None
    try:
        document = json.loads(text)
        node, victims = document["node"], document["victims"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(node, str) or not isinstance(victims, list) or not all(isinstance(uid, str) for uid in victims):
        return None
    return Preempting(NodeName(node), tuple(PodUid(uid) for uid in victims))
