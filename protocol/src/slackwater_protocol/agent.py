"""The wire between autoscaler agents and the scheduler: request and answer of protocol v3.0, v4.0 and v5.0.

What flows through: one `AgentRequest` by POST, one `PluginResponse` back. Read as Go reads them: keys in any case, unknown
ones ignored, null and absence stand for zero. Written as the agents' own code writes them. CPU is integer milliCPU and memory
integer bytes (v3.0: slots) in Python, Kubernetes quantities on the wire. Deliberately absent: speed (the service decodes its
hot path on its own, and a test holds the two together), and rules that need state.
"""

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

from slackwater_protocol.agent_checks import problem_of
from slackwater_protocol.gojson import first_value, whole_text
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

#: Bytes of a request that are read; a value that does not end within them is bad JSON.
MAX_BODY_BYTES: Final = 1024
#: milliCPU on the wire are an unsigned 32-bit integer.
LARGEST_CPU: Final = MilliCpu(2**32 - 1)
#: The largest value of a 32-bit float: where Go refuses a number as a load.
LARGEST_FLOAT32: Final = 3.4028235677973366e38
#: The type of the error for a quantity or a load that could be read and is out of range.
OUT_OF_RANGE: Final = "out_of_range"


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
    """A decoded JSON value -> milliCPU, rounded up. Raises `QuantityError`, and `OutOfRange` below 0 or above 32 bits."""
    amount = milli_cpu(quantity_from_json(value))
    if 0 <= amount <= LARGEST_CPU:
        return amount
    raise OutOfRange(value, f"want 0 to {LARGEST_CPU}m CPU")


def wire_memory(value: object) -> Bytes:
    """A decoded JSON value -> bytes (v3.0: slots). Raises `QuantityError`, `OutOfRange` if negative or over 63 bits."""
    amount = byte_count(quantity_from_json(value))
    if 0 <= amount < LARGEST:
        return amount
    raise OutOfRange(value, f"want 0 or more, less than {LARGEST}")


def wire_load(value: object) -> float:
    """A decoded JSON number -> a load, or bytes in use. Raises `ValueError`, and `OutOfRange` below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a {type(value).__name__}, want a number")
    if abs(value) >= LARGEST_FLOAT32:
        raise ValueError("too large for a 32-bit float")
    if value < 0:
        raise OutOfRange(value, "want 0 or more")
    return float(value)


class OutOfRange(QuantityError):
    """Readable, and no amount of anything: negative, or larger than the wire's integers."""


def _validated(read: Callable[[object], Any]) -> Callable[[object], Any]:
    def validate(value: object) -> Any:
        try:
            return read(value)
        except OutOfRange as error:
            # Braces are the template's: a quantity has none that pass the parser.
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
    """Reads keys in any case, of equal ones the last; null is absence."""

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


class Resources(_Message):
    """An amount of CPU and of memory."""

    # In Python, by the fields' names, integers: Resources(milli_cpu=250, memory=2**30).
    milli_cpu: Cpu = 0
    """A Kubernetes quantity of CPU; written as an integer of whole CPUs, or with `m`."""
    memory: Memory = 0
    """A Kubernetes quantity of bytes; in v3.0 an integer of memory slots."""

    @model_validator(mode="before")
    @classmethod
    def _by_name_in_milli_cpu(cls, body: Any) -> Any:
        # A bare number means whole CPUs on the wire, which never uses Python's name.
        if isinstance(body, dict) and type(body.get("milli_cpu")) is int:
            return {**body, "milli_cpu": f"{body['milli_cpu']}m"}
        return body


class SlotResources(Resources):
    """The same for v3.0, whose memory counts slots: written as a plain integer."""

    @model_serializer(mode="plain")
    def _plain(self) -> dict[str, int | str]:
        return {"vCPUs": format_milli_cpu(MilliCpu(self.milli_cpu)), "mem": self.memory}


class PodName(_Message):
    """The runner Pod, not the VM."""

    namespace: Text = ""
    """Its namespace."""
    name: Text = ""
    """Its name."""


class Metrics(_Message):
    """The VM's load, 32-bit floats."""

    load_avg_1m: Load = 0.0
    """Load average of one minute."""
    load_avg_5m: Load | None = Field(default=None, exclude_if=_is_none)
    """Load average of five minutes: needed before v5.0, refused from v5.0 on."""
    memory_usage_bytes: Load | None = Field(default=None, exclude_if=_is_none)
    """Memory in use: needed before v5.0, refused from v5.0 on."""


class AgentRequest(_Message):
    """What an agent wants for one VM. The one version that it speaks decides how the rest is read."""

    proto_version: Annotated[int, Strict(), Field(ge=0, lt=2**32)] = 0
    """5 (v3.0), 6 (v4.0) or 7 (v5.0)."""
    pod: PodName = PodName()
    """The runner Pod."""
    compute_unit: SerializeAsAny[Resources] | None = Field(default=None, exclude_if=_is_none)
    """The smallest step; both fields more than 0. May be absent in v3.0 only."""
    resources: SerializeAsAny[Resources] = Resources()
    """The wanted total; both fields more than 0. Less than before: already given back. The same: all is well."""
    last_permit: SerializeAsAny[Resources] | None = None
    """The last permit that this agent got, from whichever scheduler; null before its first answer."""
    metrics: Metrics | None = None
    """The VM's load, null while there is none."""

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Reads a request as the listener does. Raises `NotJson` or pydantic's `ValidationError`."""
        value = first_value(body[:MAX_BODY_BYTES])
        return cls.model_validate({} if value is None else value, by_name=False, by_alias=True)

    def to_body(self) -> bytes:
        return self.model_dump_json().encode()

    def problem(self) -> str | None:
        """What a scheduler would refuse this request for, whatever its state; None where nothing is wrong."""
        metrics, unit = self.metrics, self.compute_unit
        return problem_of(
            self.proto_version,
            compute_unit=(unit.milli_cpu, unit.memory) if unit and (unit.milli_cpu or unit.memory) else None,
            resources=(self.resources.milli_cpu, self.resources.memory),
            extended=None if metrics is None else (metrics.load_avg_5m is not None, metrics.memory_usage_bytes is not None),
        )


class Migrate(_Message):
    """Empty."""


class PluginResponse(_Message):
    """What the VM may use."""

    permit: SerializeAsAny[Resources] = Resources()
    """The most that the VM may use, from now on; memory as in the request, so slots in v3.0."""
    migrate: Migrate | None = Field(default=None, exclude_if=_is_none)
    """There while the VM is going to be migrated: its resources must not change."""

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Reads an answer as agents do. Raises `NotJson` or pydantic's `ValidationError`, both `ValueError`."""
        value = first_value(body)
        return cls.model_validate({} if value is None else value, by_name=False, by_alias=True)

    def to_body(self) -> bytes:
        return self.model_dump_json().encode()
