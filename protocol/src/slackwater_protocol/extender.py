"""The wire of kube-scheduler's extenders: `k8s.io/kube-scheduler/extender/v1`, as of Kubernetes 1.36.3.

What flows through: the bodies of filter (`ExtenderArgs` -> `ExtenderFilterResult`), prioritize (`ExtenderArgs` ->
`HostPriorityList`), bind (`ExtenderBindingArgs` -> `ExtenderBindingResult`) and preempt (`ExtenderPreemptionArgs` ->
`ExtenderPreemptionResult`). Pods and node lists inside them are core/v1 JSON and stay opaque dictionaries.

The Go types carry no JSON names, so Go writes the names of their fields (`NodeNames`, `PodUID`) and reads them in any
case. So does this module: Go's case out, any case in, unknown keys ignored, `null` standing for a field's zero value.
What a caller cannot do without (the pod, a binding's four fields) is required, where Go would go on with zero values.
Deliberately absent: rules about what a good answer is, and speed; the service decodes its hot path on its own.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, RootModel, Strict, model_validator

#: The range of `HostPriority.score`; kube-scheduler multiplies it by 10 x weight and does not clamp it.
MIN_EXTENDER_PRIORITY: Final = 0
MAX_EXTENDER_PRIORITY: Final = 10

#: A core/v1 object (Pod, NodeList) as decoded JSON.
CoreObject = dict[str, Any]
#: A strict integer: Go refuses `"3"`, `3.0` and `true` where it wants an int64.
Int64 = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]

_INITIALISMS: Final = {"uid": "UID", "pdb": "PDB"}


def _go_name(name: str) -> str:
    return "".join(_INITIALISMS.get(word, word.capitalize()) for word in name.split("_"))


class _GoStruct(BaseModel):
    """Dumps with Go's names; reads them in any case, the last one winning, as Go's decoder does."""

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
        # Onto Go's names, so that an error's path reads as on the wire.
        names = {name.lower(): name for name in map(_go_name, cls.model_fields)}
        named = {names.get(str(key).lower(), str(key)): value for key, value in body.items()}
        return {name: value for name, value in named.items() if value is not None}


class ExtenderArgs(_GoStruct):
    """The request of filter and prioritize. kube-scheduler sends `node_names` to an extender that is
    `nodeCacheCapable`, and `nodes` (a NodeList) to any other; the other one of the two is null."""

    pod: CoreObject
    nodes: CoreObject | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(_GoStruct):
    """The answer of filter, in the form that was asked in. What is named nowhere counts as unresolvable; neither
    `nodes` nor `node_names` means that no node is left."""

    nodes: CoreObject | None = None
    node_names: list[str] | None = None
    #: Node name to reason: full now, so preempting pods there may help.
    failed_nodes: dict[str, str] = Field(default_factory=dict)
    #: Node name to reason: preemption would change nothing. Wins over `failed_nodes`.
    failed_and_unresolvable_nodes: dict[str, str] = Field(default_factory=dict)
    #: Not empty: the whole call failed, and the rest of the answer is not read.
    error: str = ""


class HostPriority(_GoStruct):
    """The score of one node, higher is better."""

    host: str
    score: Int64


class HostPriorityList(RootModel[list[HostPriority]]):
    """The answer of prioritize: a bare JSON array."""

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
    """Pods to be preempted on one node, whole."""

    pods: list[CoreObject] = Field(default_factory=list)
    #: How many of them a PodDisruptionBudget would protect.
    num_pdb_violations: Int64 = 0


class MetaPod(_GoStruct):
    """A pod by its UID alone."""

    uid: str


class MetaVictims(_GoStruct):
    """Pods to be preempted on one node, by UID."""

    pods: list[MetaPod] = Field(default_factory=list)
    #: How many of them a PodDisruptionBudget would protect.
    num_pdb_violations: Int64 = 0


class ExtenderPreemptionArgs(_GoStruct):
    """The request of preempt. `node_name_to_meta_victims` comes to an extender that is `nodeCacheCapable`,
    `node_name_to_victims` to any other."""

    pod: CoreObject
    node_name_to_victims: dict[str, Victims] = Field(default_factory=dict)
    node_name_to_meta_victims: dict[str, MetaVictims] = Field(default_factory=dict)


class ExtenderPreemptionResult(_GoStruct):
    """The answer of preempt: the nodes where preempting these victims makes room, always by UID."""

    node_name_to_meta_victims: dict[str, MetaVictims] = Field(default_factory=dict)
