"""Objects of dynamic resource allocation as msgspec structs, with only the fields that some decision reads.

Lists have the bounds of the API: an object that no API server would store is refused instead of making a plan endless.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, field

from slackwater.adapters.api_objects import ConditionWire, Int64, ObjectMetaWire, Quantity, Wire
from slackwater.adapters.kube.structs import NodeSelectorWire
from slackwater.model.devices import MOST_RESULTS, DeviceTaint, DeviceToleration

T = TypeVar("T")
_Few = Annotated[list[T], Meta(max_length=32)]
_Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
_Expression = Annotated[str, Meta(max_length=10 * 1024)]
_Amounts = Annotated[dict[str, Quantity], Meta(max_length=32)]


class AttributeWire(Wire):
    """The value of one device attribute; one field is set, by the value's type.

    A list of values sets none of these fields. It needs a feature gate that is off by default; without the gate kube-scheduler
    cannot read the attribute either.
    """

    int_: Int64 | None = field(name="int", default=None)
    bool_: bool | None = field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class RangeWire(Wire):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class PolicyWire(Wire):
    default: Quantity | None = None
    valid_values: _Few[Quantity] | None = None
    valid_range: RangeWire | None = None


class CapacityWire(Wire):
    value: Quantity = 0
    request_policy: PolicyWire | None = None


class CounterWire(Wire):
    value: Quantity = 0


_Counters = Annotated[dict[str, CounterWire], Meta(max_length=32)]


class CounterSetWire(Wire):
    name: str
    counters: _Counters | None = None


class ConsumesWire(Wire):
    counter_set: str
    counters: _Counters | None = None


class DeviceWire(Wire):
    name: str
    attributes: Annotated[dict[str, AttributeWire], Meta(max_length=64)] | None = None
    capacity: Annotated[dict[str, CapacityWire], Meta(max_length=64)] | None = None
    consumes_counters: _Few[ConsumesWire] | None = None
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    taints: _Few[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: _Few[str] | None = None
    binding_failure_conditions: _Few[str] | None = None
    allow_multiple_allocations: bool | None = None


class PoolWire(Wire):
    name: str
    generation: Int64 = 0
    resource_slice_count: _Count = 1


class SliceSpecWire(Wire):
    driver: str
    pool: PoolWire
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    devices: Annotated[list[DeviceWire], Meta(max_length=128)] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: _Few[CounterSetWire] | None = None


class SliceWire(Wire):
    metadata: ObjectMetaWire
    spec: SliceSpecWire
    api_version: str = ""


class TaintSelectorWire(Wire):
    """`device_class_name` and `selectors` are fields of Kubernetes 1.34 alone, where rules are alpha."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: _Few[msgspec.Raw] | None = None


class TaintRuleSpecWire(Wire):
    taint: DeviceTaint
    device_selector: TaintSelectorWire | None = None


class TaintRuleWire(Wire):
    metadata: ObjectMetaWire
    spec: TaintRuleSpecWire
    api_version: str = ""


class CelWire(Wire):
    expression: _Expression


class CelSelectorWire(Wire):
    cel: CelWire


class ClassSpecWire(Wire):
    selectors: _Few[CelSelectorWire] | None = None
    extended_resource_name: str | None = None


class ClassWire(Wire):
    metadata: ObjectMetaWire
    spec: ClassSpecWire = field(default_factory=ClassSpecWire)
    api_version: str = ""


class CapacityAskWire(Wire):
    requests: _Amounts | None = None


class AskWire(Wire):
    device_class_name: str
    name: str = ""
    selectors: _Few[CelSelectorWire] | None = None
    allocation_mode: str = ""
    count: _Count | None = None
    admin_access: bool | None = None
    tolerations: _Few[DeviceToleration] | None = None
    capacity: CapacityAskWire | None = None


class RequestWire(Wire):
    name: str
    exactly: AskWire | None = None
    first_available: Annotated[list[AskWire], Meta(max_length=8)] | None = None


class ConstraintWire(Wire):
    requests: _Few[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DevicesWire(Wire):
    requests: _Few[RequestWire] | None = None
    constraints: _Few[ConstraintWire] | None = None


class ClaimSpecWire(Wire):
    devices: DevicesWire = field(default_factory=DevicesWire)


class ResultWire(Wire):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: _Amounts | None = None
    binding_conditions: _Few[str] | None = None
    binding_failure_conditions: _Few[str] | None = None


class ResultsWire(Wire):
    results: Annotated[list[ResultWire], Meta(max_length=MOST_RESULTS)] | None = None


class AllocationWire(Wire):
    devices: ResultsWire = field(default_factory=ResultsWire)
    node_selector: NodeSelectorWire | None = None


class UserWire(Wire):
    uid: str = ""


class DeviceStatusWire(Wire):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: _Few[ConditionWire] | None = None


class ClaimStatusWire(Wire):
    allocation: AllocationWire | None = None
    reserved_for: Annotated[list[UserWire], Meta(max_length=256)] | None = None
    devices: _Few[DeviceStatusWire] | None = None


class ClaimWire(Wire):
    metadata: ObjectMetaWire
    spec: ClaimSpecWire = field(default_factory=ClaimSpecWire)
    status: ClaimStatusWire = field(default_factory=ClaimStatusWire)
    api_version: str = ""


class ClaimTemplateSpecWire(Wire):
    spec: ClaimSpecWire = field(default_factory=ClaimSpecWire)


class ClaimTemplateWire(Wire):
    metadata: ObjectMetaWire
    spec: ClaimTemplateSpecWire = field(default_factory=ClaimTemplateSpecWire)
    api_version: str = ""
