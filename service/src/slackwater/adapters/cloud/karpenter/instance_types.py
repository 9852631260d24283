"""Reads the file of instance types: what may be launched, where, and what a node of it has. Karpenter's cloud providers know
that, and no object of the cluster says it.

The format is that of Karpenter's kwok provider (its INSTANCE_TYPES_FILE_PATH), with two more keys for each type: `allocatable`,
where it is less than `resources`, and `labels`, which requirements of NodePools may name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from slackwater.model.objects import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from slackwater_protocol.money import MICROS
from slackwater_protocol.units import parse_nanos

OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"
#: What clouds call what Kubernetes calls otherwise.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
#: A list of all types of the largest regions of AWS has 10 MB.
LARGEST_FILE: Final = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """An instance type in a zone, of a capacity type. `labels`: of its nodes, as far as they are known. Amounts are in 10^-9
    units. `price_micros`: for an hour; None if it is not said."""

    type: str
    zone: str
    capacity_type: str
    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    price_micros: int | None = None


class _Requirement(Struct):
    key: str
    operator: str
    values: list[str] = field(default_factory=list)


class _Offered(Struct, rename="pascal"):
    price: Annotated[float, Meta(ge=0, le=10**6)] | None = None
    available: bool = True
    requirements: list[_Requirement] = field(default_factory=list)


class _Named(Struct):
    name: str


class _Type(Struct, rename="camel"):
    name: Annotated[str, Meta(min_length=1)]
    resources: dict[str, str | int | float]
    offerings: Annotated[list[_Offered], Meta(min_length=1)]
    architecture: str = "amd64"
    operating_systems: list[str] = field(default_factory=lambda: ["linux"])
    allocatable: dict[str, str | int | float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class InstanceTypes(NamedTuple):
    """The available offerings of a file. `problems`: the types that are left out, each with its place and what is wrong."""

    offerings: tuple[Offering, ...]
    problems: tuple[str, ...]


def read_instance_types(path: str) -> InstanceTypes:
    """Reads the file. Raises ValueError, whose text names the place, if the file is none, or has no type that can be read."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as err:
        raise ValueError(f"{path}: {err.strerror}, want a file of instance types") from err
    if len(data) > LARGEST_FILE:
        raise ValueError(f"{path}: got more bytes, want at most {LARGEST_FILE}")
    try:
        types = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as err:
        raise ValueError(f"{path}: {err}; want a list of instance types as Karpenter's kwok provider reads it") from err
    found, problems = list[Offering](), list[str]()
    for number, raw in enumerate(types):
        try:
            found += tuple(_offerings(msgspec.json.decode(raw, type=_Type)))
        except (ValueError, RecursionError) as err:
            problems.append(f"{path}: $[{number}]{_name_of(raw)}: {err}")
    if problems and not found:
        raise ValueError(problems[0])
    return InstanceTypes(tuple(found), tuple(problems))


def _name_of(raw: msgspec.Raw) -> str:
    try:
        return f" ({msgspec.json.decode(raw, type=_Named).name:.80})"
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _offerings(each: _Type) -> Iterator[Offering]:
    capacity = {name: int(parse_nanos(amount)) for name, amount in each.resources.items()}
    if not {"cpu", "memory"} <= capacity.keys():
        raise ValueError(f"resources: got {', '.join(capacity) or 'none'}, want cpu and memory")
    allocatable = capacity | {name: int(parse_nanos(amount)) for name, amount in each.allocatable.items()}
    if below := [name for name, amount in (capacity | allocatable).items() if min(amount, capacity.get(name, 0)) < 0]:
        raise ValueError(f"{', '.join(below)}: got an amount below 0, want at least 0")
    for offered in each.offerings:
        chosen = {one.key: one.values[0] for one in offered.requirements if one.operator == "In" and len(one.values) == 1}
        for system in sorted(each.operating_systems) if offered.available else ():
            arch = _ARCHITECTURES.get(each.architecture, each.architecture)
            labels = {OS: system, ARCH: arch, CAPACITY_TYPE: "on-demand", **each.labels, **chosen}
            yield Offering(
                type=each.name,
                zone=labels.get(ZONE, ""),
                capacity_type=labels[CAPACITY_TYPE],
                labels={**labels, INSTANCE_TYPE: each.name},
                capacity=capacity,
                allocatable=allocatable,
                price_micros=None if offered.price is None else round(offered.price * MICROS),
            )
