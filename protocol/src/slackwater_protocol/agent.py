"""Messages of the protocol between autoscaler agents and the scheduler: request and answer of v3.0, v4.0 and v5.0.

An agent sends an `AgentRequest` by POST and gets a `PluginResponse`. Both are read as Go reads them: keys match in any case,
unknown keys are ignored, null and a missing key stand for zero. They are written as the agents' own code writes them. In
Python, CPU is integer milliCPU and memory integer bytes (v3.0: memory slots); on the wire both are Kubernetes quantities.
`problem_of` makes the checks that need no state. Deliberately absent: speed (the service decodes requests by faster code, and a
test checks that both agree), and rules that need state.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializeAsAny,
    Strict,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from slackwater_protocol.agent_versions import (
    NEWEST,
    OLDEST,
    ProtocolVersion,
    has_extended_metrics,
    is_answered,
    version_name,
)
from slackwater_protocol.units import (
    LARGEST,
    Bytes,
    MilliCpu,
    QuantityError,
    byte_count,
    format_bytes,
    format_milli_cpu,
    milli_cpu,
    quantity_from_json,
)

#: The number of bytes of a request that are read. A JSON value that does not end within them is refused as bad JSON.
MAX_BODY_BYTES: Final = 1024
#: The largest milliCPU, since the agents' code stores them as an unsigned 32-bit integer.
LARGEST_CPU: Final = MilliCpu(2**32 - 1)
#: From this number on Go refuses a load, because it does not fit a 32-bit float.
LARGEST_FLOAT32: Final = 3.4028235677973366e38
#: The pydantic error type for a quantity or a load that can be read but is out of range.
OUT_OF_RANGE: Final = "out_of_range"


#: CPU in milliCPU and memory, as in `Resources`.
Pair = tuple[int, int]


def problem_of(version: int, *, compute_unit: Pair | None, resources: Pair, extended: tuple[bool, bool] | None) -> str | None:
    """The text with which a request is refused, whatever the scheduler's state; None if it is valid. Checks and texts are those
    of Neon's scheduler, in its order. `compute_unit`: None if it is missing. `extended`: whether `loadAvg5M` and
    `memoryUsageBytes` are present; None if `metrics` is null."""
    if version == 0:
        return f"Invalid protocol version {version_name(0)}"
    if not is_answered(version):
        wanted = f"Need {version_name(OLDEST)} to {version_name(NEWEST)}"
        return f"Protocol version mismatch: {wanted} but got {version_name(version)}"
    if compute_unit is None and version >= ProtocolVersion.V4_0:
        compute_unit = (0, 0)
    if compute_unit is not None and not all(compute_unit):
        return _zero("computeUnit", compute_unit)
    if extended in ((True, False), (False, True)):
        return "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes"
    if extended is not None and extended[0] != has_extended_metrics(version):
        given = f"{'non-nil' if extended[0] else 'nil'} metrics.{{loadAvg5M,memoryUsageBytes}}"
        return f"{given} not supported for protocol version {version_name(version)}"
    return None if all(resources) else _zero("resources", resources)


def _zero(what: str, pair: Pair) -> str:
    return f"{what} fields must be non-zero: {'mem' if pair[0] else 'vCPUs'} must be non-zero"


class NotJson(ValueError):
    """The text does not begin with a JSON value."""


def first_value(body: bytes) -> Any:
    """Reads the first JSON value of `body`, whatever follows it, as Go's stream decoder does. Bytes that
    are not UTF-8 become U+FFFD. The last of duplicate keys counts.

    :raises NotJson: there is no value, or it is incomplete.
    """
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    try:
        value, _ = _decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return value


def whole_text(text: str) -> str:
    """Replaces each unpaired surrogate in `text` by U+FFFD. JSON can contain unpaired surrogates, UTF-8 cannot."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse(constant: str) -> Any:
    raise NotJson(f"{constant} is no JSON")


_decoder: Final = json.JSONDecoder(parse_constant=_refuse)


_WIRE_NAMES: Final = {
    "milli_cpu": "vCPUs",
    "memory": "mem",
    "load_avg_1m": "loadAvg1M",
    "load_avg_5m": "loadAvg5M",
    "memory_usage_bytes": "memoryUsageBytes",
    "proto_version": "protoVersion",
    "compute_unit": "computeUnit",
    "last_permit": "lastPermit",
}


def _wire_name(name: str) -> str:
    return _WIRE_NAMES.get(name, name)


def wire_cpu(value: object) -> MilliCpu:
    """Converts a decoded JSON value to milliCPU, rounded up. Raises `QuantityError` if it is no quantity, `OutOfRange` if it is
    negative or larger than `LARGEST_CPU`."""
    amount = milli_cpu(quantity_from_json(value))
    if 0 <= amount <= LARGEST_CPU:
        return amount
    raise OutOfRange(value, f"want 0 to {LARGEST_CPU}m CPU")


def wire_memory(value: object) -> Bytes:
    """Converts a decoded JSON value to bytes (v3.0: memory slots). Raises `QuantityError` if it is no quantity, `OutOfRange` if
    it is negative or does not fit an int64."""
    amount = byte_count(quantity_from_json(value))
    if 0 <= amount < LARGEST:
        return amount
    raise OutOfRange(value, f"want 0 or more, less than {LARGEST}")


def wire_load(value: object) -> float:
    """Converts a decoded JSON number to a float: a load, or bytes in use. Raises `ValueError` if it is no number or does not
    fit a 32-bit float, `OutOfRange` if it is negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a {type(value).__name__}, want a number")
    if abs(value) >= LARGEST_FLOAT32:
        raise ValueError("too large for a 32-bit float")
    if value < 0:
        raise OutOfRange(value, "want 0 or more")
    return float(value)


class OutOfRange(QuantityError):
    """A quantity or load that can be read but is out of range: negative, or larger than the protocol's integers."""


def _validated(read: Callable[[object], Any]) -> Callable[[object], Any]:
    def validate(value: object) -> Any:
        try:
            return read(value)
        except OutOfRange as error:
            # pydantic fills the braces of this template. The values contain no braces: no quantity that was parsed does.
            raise PydanticCustomError(OUT_OF_RANGE, "got {seen}, {why}", {"seen": _shown(value), "why": error.why}) from error

    return validate


def _is_none(value: object) -> bool:
    return value is None


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:36] + " ..."


_QUANTITY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^ *\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)? *$"},
    ]
}
Cpu = Annotated[
    int,
    BeforeValidator(_validated(wire_cpu)),
    PlainSerializer(format_milli_cpu, return_type=int | str),
    WithJsonSchema({**_QUANTITY_SCHEMA, "examples": ["250m", 2]}),
]
Memory = Annotated[
    int,
    BeforeValidator(_validated(wire_memory)),
    PlainSerializer(format_bytes, return_type=int | str),
    WithJsonSchema({**_QUANTITY_SCHEMA, "examples": ["4Gi", 8]}),
]
Load = Annotated[float, BeforeValidator(_validated(wire_load)), WithJsonSchema({"type": "number", "minimum": 0})]
Text = Annotated[str, Strict(), BeforeValidator(lambda value: whole_text(value) if isinstance(value, str) else value)]


class _Message(BaseModel):
    """Base class of the protocol's messages. Reads JSON objects as Go does: keys match in any case, the last of duplicate keys
    wins, and null counts as a missing key."""

    model_config = ConfigDict(
        alias_generator=_wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_as_go_does(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        names = {name.casefold(): name for name in map(_wire_name, cls.model_fields)}
        return {names.get(str(key).casefold(), key): value for key, value in body.items() if value is not None}

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Reads a message as agents do. Raises `NotJson` or pydantic's `ValidationError`, both `ValueError`."""
        value = first_value(body)
        return cls.model_validate({} if value is None else value, by_name=False, by_alias=True)

    def to_body(self) -> bytes:
        return self.model_dump_json().encode()


class Resources(_Message):
    """An amount of CPU and of memory."""

    # In Python both fields are integers, set by name: Resources(milli_cpu=250, memory=2**30).
    milli_cpu: Cpu = 0
    """A Kubernetes quantity of CPU; written as an integer of whole CPUs, or with `m`."""
    memory: Memory = 0
    """A Kubernetes quantity of bytes; in v3.0 an integer of memory slots."""

    @model_validator(mode="before")
    @classmethod
    def _by_name_in_milli_cpu(cls, body: Any) -> Any:
        # On the wire (key `vCPUs`) a bare number means whole CPUs. Python's name is never used there.
        if isinstance(body, dict) and type(body.get("milli_cpu")) is int:
            return {**body, "milli_cpu": f"{body['milli_cpu']}m"}
        return body


class SlotResources(Resources):
    """An amount of CPU and of memory in v3.0, whose memory is a number of memory slots, written as a plain integer."""

    @model_serializer(mode="plain")
    def _plain(self) -> dict[str, int | str]:
        return {"vCPUs": format_milli_cpu(MilliCpu(self.milli_cpu)), "mem": self.memory}


class PodName(_Message):
    """Namespace and name of the VM's runner Pod, not of the VM."""

    namespace: Text = ""
    """Namespace of the runner Pod."""
    name: Text = ""
    """Name of the runner Pod."""


class Metrics(_Message):
    """The VM's load, 32-bit floats."""

    load_avg_1m: Load = 0.0
    """Load average of one minute."""
    load_avg_5m: Load | None = Field(default=None, exclude_if=_is_none)
    """Load average of five minutes: needed before v5.0, refused from v5.0 on."""
    memory_usage_bytes: Load | None = Field(default=None, exclude_if=_is_none)
    """Memory in use: needed before v5.0, refused from v5.0 on."""


class AgentRequest(_Message):
    """A request of an agent for one VM's resources. Its protocol version decides how the rest is read."""

    proto_version: Annotated[int, Strict(), Field(ge=0, lt=2**32)] = 0
    """The protocol version: 5 (v3.0), 6 (v4.0) or 7 (v5.0)."""
    pod: PodName = PodName()
    """The runner Pod."""
    compute_unit: SerializeAsAny[Resources] | None = Field(default=None, exclude_if=_is_none)
    """The smallest step; both fields more than 0. May be absent in v3.0 only."""
    resources: SerializeAsAny[Resources] = Resources()
    """The total that the agent wants for the VM; both fields more than 0. If it is less than before, the agent has already
    given the difference back."""
    last_permit: SerializeAsAny[Resources] | None = None
    """The last permit that the agent got, from whichever scheduler; null before its first permit."""
    metrics: Metrics | None = None
    """The VM's load, null while there is none."""

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Reads a request as the listener does. Raises `NotJson` or pydantic's `ValidationError`."""
        return super().from_body(body[:MAX_BODY_BYTES])

    def problem(self) -> str | None:
        """The text with which every scheduler would refuse this request, whatever the scheduler's state; None if the request is
        valid."""
        metrics, unit = self.metrics, self.compute_unit
        return problem_of(
            self.proto_version,
            compute_unit=(unit.milli_cpu, unit.memory) if unit and (unit.milli_cpu or unit.memory) else None,
            resources=(self.resources.milli_cpu, self.resources.memory),
            extended=None if metrics is None else (metrics.load_avg_5m is not None, metrics.memory_usage_bytes is not None),
        )


class Migrate(_Message):
    """An empty object: its presence announces a migration."""


class PluginResponse(_Message):
    """The scheduler's answer to an agent: what the VM may use."""

    permit: SerializeAsAny[Resources] = Resources()
    """The most that the VM may use, from now on; memory as in the request, so slots in v3.0."""
    migrate: Migrate | None = Field(default=None, exclude_if=_is_none)
    """Present if the VM is going to be migrated; then its resources must not change."""
