"""Messages of kube-scheduler's extender protocol: `k8s.io/kube-scheduler/extender/v1`, as of Kubernetes 1.36.3.

They are the requests and answers of filter (`ExtenderArgs` -> `ExtenderFilterResult`), prioritize (`ExtenderArgs` ->
`HostPriorityList`), bind (`ExtenderBindingArgs` -> `ExtenderBindingResult`) and preempt (`ExtenderPreemptionArgs` ->
`ExtenderPreemptionResult`). Pods and node lists in them are core/v1 JSON and stay opaque dictionaries.

The Go types declare no JSON names, so Go writes the names of their fields (`NodeNames`, `PodUID`) and reads them in any case.
So does this module: it writes Go's names, reads keys in any case, ignores unknown keys, and takes `null` for a field's zero
value. One thing differs: fields without which an extender cannot work (the pod, the four fields of a binding) are required,
while Go would use zero values. Deliberately absent: rules about what a good answer is, and speed; the service decodes requests
by faster code.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, RootModel, Strict, model_validator

#: The range of `HostPriority.score`. kube-scheduler multiplies the score by 10 x weight and does not check the range.
MIN_EXTENDER_PRIORITY: Final = 0
MAX_EXTENDER_PRIORITY: Final = 10

#: A core/v1 object (Pod, NodeList) as decoded JSON.
CoreObject = dict[str, Any]
#: An int64. As in Go, `"3"`, `3.0` and `true` are refused.
Int64 = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]

_INITIALISMS: Final = {"uid": "UID", "pdb": "PDB"}


def _go_name(name: str) -> str:
    return "".join(_INITIALISMS.get(word, word.capitalize()) for word in name.split("_"))


class _GoStruct(BaseModel):
    """Base class of the messages. Writes keys by Go's names. Reads keys in any case; the last of duplicate keys wins, as in
    Go's decoder."""

    model_config = ConfigDict(
        alias_generator=_go_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_as_go_does(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        # Keys become Go's names, so that the path in an error message has the keys of the wire.
        names = {name.lower(): name for name in map(_go_name, cls.model_fields)}
        named = {names.get(str(key).lower(), str(key)): value for key, value in body.items()}
        return {name: value for name, value in named.items() if value is not None}


class ExtenderArgs(_GoStruct):
    """The request of filter and prioritize. kube-scheduler sends `node_names` to an extender that is `nodeCacheCapable`, and
    `nodes` (a NodeList) to any other extender; the field that it does not send is None."""

    pod: CoreObject
    nodes: CoreObject | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(_GoStruct):
    """The answer of filter: the feasible nodes as `nodes` or `node_names`, whichever the request has. If both are None, no node
    is feasible. A node in no field counts as one of `failed_and_unresolvable_nodes`."""

    nodes: CoreObject | None = None
    node_names: list[str] | None = None
    #: Nodes on which preemption may help: node name to reason.
    failed_nodes: dict[str, str] = Field(default_factory=dict)
    #: Nodes on which preemption would not help: node name to reason. It takes precedence over `failed_nodes`.
    failed_and_unresolvable_nodes: dict[str, str] = Field(default_factory=dict)
    #: If not empty, the whole call failed, and kube-scheduler does not read the rest of the answer.
    error: str = ""


class HostPriority(_GoStruct):
    """The score of one node; a higher score is better."""

    host: str
    score: Int64


class HostPriorityList(RootModel[list[HostPriority]]):
    """The answer of prioritize: a JSON array of scores."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_empty(cls, body: Any) -> Any:
        return [] if body is None else body


class ExtenderBindingArgs(_GoStruct):
    """The request of bind."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


class ExtenderBindingResult(_GoStruct):
    """The answer of bind; an empty error means that the pod is bound."""

    error: str = ""


class Victims(_GoStruct):
    """The pods to be preempted on one node, as whole objects."""

    pods: list[CoreObject] = Field(default_factory=list)
    #: The number of these pods whose preemption violates a PodDisruptionBudget.
    num_pdb_violations: Int64 = 0


class MetaPod(_GoStruct):
    """A pod, given by its UID alone."""

    uid: str


class MetaVictims(_GoStruct):
    """The pods to be preempted on one node, given by their UIDs."""

    pods: list[MetaPod] = Field(default_factory=list)
    #: The number of these pods whose preemption violates a PodDisruptionBudget.
    num_pdb_violations: Int64 = 0


class ExtenderPreemptionArgs(_GoStruct):
    """The request of preempt. kube-scheduler sends `node_name_to_meta_victims` to an extender that is `nodeCacheCapable`, and
    `node_name_to_victims` to any other extender."""

    pod: CoreObject
    node_name_to_victims: dict[str, Victims] = Field(default_factory=dict)
    node_name_to_meta_victims: dict[str, MetaVictims] = Field(default_factory=dict)


class ExtenderPreemptionResult(_GoStruct):
    """The answer of preempt: the nodes where the preemption of these victims makes room for the pod. Victims are always given
    by their UIDs."""

    node_name_to_meta_victims: dict[str, MetaVictims] = Field(default_factory=dict)
