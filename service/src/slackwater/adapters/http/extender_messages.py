"""Messages of kube-scheduler's extender v1 protocol, decoded and encoded with msgspec for speed.

The Go types have no JSON tags (docs/extender.md, T1): kube-scheduler writes keys in Go's case and accepts any. We accept any
case and write Go's. Objects and lists of names stay undecoded bytes until they are needed. `slackwater_protocol.extender` has
the same messages as documented pydantic models; a test asserts that both agree.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.api_objects import ObjectDecoder

_T = TypeVar("_T")
NULL: Final = msgspec.Raw(b"null")


class BadRequest(Exception):
    """The body is invalid for the verb; the message says what was found and what is wanted."""


class PlacingArgs(msgspec.Struct, gc=False):
    """The body of a filter or prioritize request. Pod and nodes stay undecoded, since the watch usually has them already."""

    Pod: msgspec.Raw = NULL
    Nodes: msgspec.Raw = NULL
    NodeNames: msgspec.Raw = NULL


class ObjectMeta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class ObjectHead(msgspec.Struct, gc=False):
    """The metadata of any object."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class NodeItems(msgspec.Struct, gc=False):
    """A NodeList whose nodes stay undecoded."""

    items: list[msgspec.Raw] | None = None


class BindingArgs(msgspec.Struct, gc=False):
    """The body of a bind request: the pod and the node that kube-scheduler chose for it."""

    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class MetaPod(msgspec.Struct):
    UID: str = ""


class MetaVictims(msgspec.Struct):
    """Victims of one node, by UID."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(msgspec.Struct):
    """Victims of one node, as whole pods of which only the metadata is decoded."""

    Pods: list[ObjectHead] | None = None
    NumPDBViolations: int = 0


class PreemptionArgs(msgspec.Struct):
    """The body of a preempt request: with `nodeCacheCapable: true` the map of `MetaVictims`, otherwise that of `Victims`."""

    Pod: msgspec.Raw = NULL
    NodeNameToVictims: dict[str, Victims | None] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims | None] | None = None


class PreemptionResult(msgspec.Struct):
    NodeNameToMetaVictims: dict[str, MetaVictims]


class ErrorAnswer(msgspec.Struct):
    Error: str


_placing = ObjectDecoder(PlacingArgs)
_binding = ObjectDecoder(BindingArgs)
_preemption = ObjectDecoder(PreemptionArgs)
_head = ObjectDecoder(ObjectHead)
_names = ObjectDecoder(list[str])
_name = msgspec.json.Decoder(str)
_node_items = ObjectDecoder(NodeItems)
encode: Final = msgspec.json.Encoder().encode


def placing_args(body: bytes) -> PlacingArgs:
    """Decodes the body of filter or prioritize.

    :raises BadRequest: the body is malformed, or has no pod or no nodes.
    """
    args = _decoded(_placing, body)
    if args.Pod == NULL or (args.NodeNames == NULL and args.Nodes == NULL):
        args = _decoded(_placing, _in_go_case(body, PlacingArgs))
    if args.Pod == NULL:
        raise BadRequest("Pod: missing, want the pod to be placed")
    if args.NodeNames == NULL and args.Nodes == NULL:
        raise BadRequest("NodeNames and Nodes: both missing, want one of them")
    return args


def binding_args(body: bytes) -> BindingArgs:
    """Decodes the body of bind.

    :raises BadRequest: the body is malformed, or lacks one of the four fields.
    """
    args = _decoded(_binding, body)
    if not (args.PodName and args.PodNamespace and args.PodUID and args.Node):
        args = _decoded(_binding, _in_go_case(body, BindingArgs))
    for field in BindingArgs.__struct_fields__:
        if not getattr(args, field):
            raise BadRequest(f"{field}: missing or empty, want PodName, PodNamespace, PodUID and Node")
    return args


def preemption_args(body: bytes) -> PreemptionArgs:
    """Decodes the body of preempt.

    :raises BadRequest: the body is malformed, or has no pod or neither map of victims.
    """
    args = _decoded(_preemption, body)
    if args.Pod == NULL or (args.NodeNameToVictims is None and args.NodeNameToMetaVictims is None):
        args = _decoded(_preemption, _in_go_case(body, PreemptionArgs))
    if args.Pod == NULL:
        raise BadRequest("Pod: missing, want the preemptor")
    if args.NodeNameToVictims is None and args.NodeNameToMetaVictims is None:
        raise BadRequest("NodeNameToVictims and NodeNameToMetaVictims: both missing, want one of them")
    return args


def head(raw: bytes, what: str) -> ObjectMeta:
    """Decodes the metadata of an object. `what` names the object in the error.

    :raises BadRequest: the object has no metadata or no name.
    """
    meta = _decoded(_head, raw, what).metadata
    if not meta.name:
        raise BadRequest(f"{what}.metadata.name: missing or empty")
    return meta


def names(raw: bytes) -> list[bytes]:
    """Decodes a JSON list of strings; returns each in JSON form without its quotes, escaped only where needed.

    :raises BadRequest: `raw` is not a list of strings.
    """
    return [encode(name)[1:-1] for name in texts(raw)]


def texts(raw: bytes) -> list[str]:
    """Decodes a JSON list of strings.

    :raises BadRequest: `raw` is not a list of strings.
    """
    return _decoded(_names, raw, "NodeNames")


def name(raw: bytes) -> str:
    """Decodes one JSON string. `raw` includes the string's quotes."""
    return _name.decode(raw)


def node_items(raw: bytes) -> list[msgspec.Raw]:
    """Returns the undecoded nodes of a NodeList.

    :raises BadRequest: `raw` is not a NodeList.
    """
    return _decoded(_node_items, raw, "Nodes").items or []


def _decoded(decoder: ObjectDecoder[_T], body: bytes, what: str = "body") -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{what}: {error}") from None


#: The field names of the messages in Go's case, by their lower-case form.
_GO_NAMES: Final = {
    name.lower(): name
    for struct in (PlacingArgs, BindingArgs, PreemptionArgs, Victims, MetaVictims, MetaPod)
    for name in struct.__struct_fields__
}
#: The maps of victims. Their keys are node names, so only the values of the maps have fields to rename.
_VICTIM_MAPS: Final = {"NodeNameToVictims", "NodeNameToMetaVictims"}


def _in_go_case(body: bytes, struct: type[msgspec.Struct]) -> bytes:
    """Rewrites the body's keys to Go's case. A key that is in Go's case already wins over other spellings of it."""
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"body: {error}") from None
    if not isinstance(message, dict):
        raise BadRequest(f"body: got {type(message).__name__}, want an object with {', '.join(struct.__struct_fields__)}")
    renamed = _renamed(message)
    for field in _VICTIM_MAPS & renamed.keys():
        if isinstance(renamed[field], dict):
            renamed[field] = {node: _renamed_victims(victims) for node, victims in renamed[field].items()}
    return encode(renamed)


def _renamed_victims(victims: Any) -> Any:
    if not isinstance(victims, dict):
        return victims
    victims = _renamed(victims)
    pods = victims.get("Pods")
    if isinstance(pods, list):
        victims["Pods"] = [_renamed(pod) if isinstance(pod, dict) else pod for pod in pods]
    return victims


def _renamed(message: Mapping[str, Any]) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for key, value in message.items():
        name = _GO_NAMES.get(key.lower(), key)
        if name == key or name not in message:
            renamed[name] = value
    return renamed
