"""What follows from an event that could not be applied: which object it was about, and which node is closed for it."""

from slackwater.model.events import Event, NodeSeen, ObjectUnreadable, PodAudited, PodRead, PodSeen

_LONGEST: int = 200


def object_of(event: Event) -> str:
    """The object that the event is about, for people."""
    match event:
        case PodSeen(pod) | PodRead(pod) | PodAudited(pod):
            return f"pod {pod.key}"
        case NodeSeen(node):
            return f"node {node.name}"
        case _:
            text = repr(event)
            return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def unreadable_after(event: Event, why: str) -> ObjectUnreadable | None:
    """The event that closes the node where the object counts; None where the event is about no pod and no node."""
    match event:
        case PodSeen(pod) | PodRead(pod) | PodAudited(pod):
            return ObjectUnreadable(pod.uid, f"pod {pod.key}", None if pod.ended else pod.node, why)
        case NodeSeen(node):
            return ObjectUnreadable(node.uid, f"node {node.name}", node.name, why)
        case _:
            return None
