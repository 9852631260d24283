"""Decodes autoscaler-agents' requests and encodes the answers: body and headers -> `PermitAsk`, `PermitAnswer` -> body.

Bodies with exactly the known keys, which is what agents send, are decoded by msgspec. All others go through the pydantic models
of `slackwater_protocol.agent`, which follow Go's leniency (keys in another case, unknown or repeated keys, text after the
value). A test asserts that both ways agree. `wait_seconds` reads the header `Prefer: wait=N`. This module makes the checks that
need no state; the permit service makes the others.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from pydantic import ValidationError

from slackwater.model.ids import PodKey
from slackwater.model.permits import Load, PermitAnswer, PermitAsk
from slackwater.model.resources import Amounts
from slackwater_protocol.agent import (
    MAX_BODY_BYTES,
    OUT_OF_RANGE,
    AgentRequest,
    Metrics,
    Resources,
    wire_cpu,
    wire_load,
    wire_memory,
)
from slackwater_protocol.agent_checks import problem_of
from slackwater_protocol.agent_versions import counts_slots
from slackwater_protocol.gojson import NotJson
from slackwater_protocol.units import Bytes, MilliCpu, format_bytes, format_milli_cpu

_MICRO: Final = 1_000_000
_BAD_JSON: Final = "bad JSON"
#: Distinct permits whose JSON is cached. There are few, since agents change resources by whole compute units.
_CACHED_PERMITS: Final = 4096
#: Distinct pairs of quantities whose decoded form is cached, for the same reason.
_CACHED_AMOUNTS: Final = 4096


class InvalidBody(Exception):
    """An invalid request, to be answered with 400 and `text`.

    If the body could not be decoded, `version` is 0 and `has_metrics` None.
    """

    def __init__(self, *, text: str, version: int, has_metrics: bool | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.version = version
        self.has_metrics = has_metrics


class _WireResources(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    vCPUs: int | str | float
    mem: int | str | float


class _WirePod(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    namespace: str
    name: str


class _Metrics(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    loadAvg1M: float
    loadAvg5M: float | None = None
    memoryUsageBytes: float | None = None


class _Request(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    protoVersion: int
    pod: _WirePod
    resources: _WireResources
    computeUnit: _WireResources | None = None
    lastPermit: _WireResources | None = None
    metrics: _Metrics | None = None


_decoder: Final = msgspec.json.Decoder(_Request)


def read_ask(body: bytes) -> PermitAsk:
    """Decodes a request and applies all checks that need no state.

    :raises InvalidBody: the request fails a check; the text is that of the first failed check, in the order of Neon's plugin.
    """
    try:
        return _read_quickly(body[:MAX_BODY_BYTES])
    except (ValueError, msgspec.DecodeError):
        return _read_exactly(body)


def _read_quickly(body: bytes) -> PermitAsk:
    """Decodes a body with msgspec.

    :raises ValueError, msgspec.DecodeError: the body needs `_read_exactly`.
    :raises InvalidBody: the request was decoded and fails a check.
    """
    request = _decoder.decode(body)
    if not 0 <= request.protoVersion < 2**32:
        raise ValueError
    metrics = request.metrics
    return _checked(
        version=request.protoVersion,
        key=PodKey(request.pod.namespace, request.pod.name),
        asked=_amounts(request.resources),
        last_permit=None if request.lastPermit is None else _amounts(request.lastPermit),
        unit=None if request.computeUnit is None else _amounts(request.computeUnit),
        load=None if metrics is None else _load(metrics.loadAvg1M, metrics.loadAvg5M, metrics.memoryUsageBytes),
    )


def _amounts(wire: _WireResources) -> Amounts:
    return _amounts_in(wire.vCPUs, wire.mem)


@lru_cache(maxsize=_CACHED_AMOUNTS, typed=True)
def _amounts_in(cpu: float | str, mem: float | str) -> Amounts:
    return Amounts(wire_cpu(cpu), wire_memory(mem))


def _read_exactly(body: bytes) -> PermitAsk:
    try:
        request = AgentRequest.from_body(body)
    except NotJson:
        raise InvalidBody(text=_BAD_JSON, version=0) from None
    except ValidationError as error:
        raise InvalidBody(text=_why(error), version=0) from None
    unit, metrics = request.compute_unit, request.metrics
    return _checked(
        version=request.proto_version,
        key=PodKey(request.pod.namespace, request.pod.name),
        asked=_amounts_of(request.resources),
        last_permit=None if request.last_permit is None else _amounts_of(request.last_permit),
        unit=None if unit is None else _amounts_of(unit),
        load=None if metrics is None else _load_of(metrics),
    )


def _why(error: ValidationError) -> str:
    """Returns the error text: names the quantities that are out of range if nothing else is wrong, else "bad JSON"."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    if any(fault["type"] != OUT_OF_RANGE for fault in faults):
        return _BAD_JSON
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)


def _amounts_of(resources: Resources) -> Amounts:
    return Amounts(MilliCpu(resources.milli_cpu), Bytes(resources.memory))


def _load_of(metrics: Metrics) -> Load:
    return _load(metrics.load_avg_1m, metrics.load_avg_5m, metrics.memory_usage_bytes)


def _load(load1: float, load5: float | None, memory_usage: float | None) -> Load:
    return Load(
        load1_micro=round(wire_load(load1) * _MICRO),
        load5_micro=None if load5 is None else round(wire_load(load5) * _MICRO),
        memory_usage_bytes=None if memory_usage is None else round(wire_load(memory_usage)),
    )


def _checked(
    *, version: int, key: PodKey, asked: Amounts, last_permit: Amounts | None, unit: Amounts | None, load: Load | None
) -> PermitAsk:
    if unit is not None and not any(unit):
        unit = None
    problem = problem_of(
        version,
        compute_unit=unit,
        resources=asked,
        extended=None if load is None else (load.load5_micro is not None, load.memory_usage_bytes is not None),
    )
    if problem is not None:
        raise InvalidBody(text=problem, version=version, has_metrics=load is not None)
    return PermitAsk(
        key=key,
        version=version,
        asked=asked,
        last_permit=last_permit,
        compute_unit=unit,
        load=load,
        slots=counts_slots(version),
    )


def written(answer: PermitAnswer, version: int) -> bytes:
    """Encodes an answer in the form of `PluginResponse`. Amounts are rounded down, since a permit is an upper bound."""
    if counts_slots(version):
        return _body(answer.permit.cpu, answer.permit.memory // answer.slot_bytes, answer.migrate, True)
    return _body(answer.permit.cpu, answer.permit.memory, answer.migrate, False)


@lru_cache(maxsize=_CACHED_PERMITS)
def _body(cpu: MilliCpu, memory: int, migrate: bool, slots: bool) -> bytes:
    permit = {"vCPUs": format_milli_cpu(cpu), "mem": memory if slots else format_bytes(Bytes(memory))}
    return msgspec.json.encode({"permit": permit, "migrate": {}} if migrate else {"permit": permit})


#: Matches `wait` as a preference, not as part of another word or as a parameter of another preference.
_WAIT: Final = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)


def wait_seconds(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Returns how many seconds a caller is willing to wait for a better answer: header `Prefer: wait=N` (RFC 7240).

    The first `wait` counts; 0 if there is none, or not in the RFC's form. `headers` are pairs of name, in lower case, and
    value.
    """
    for name, value in headers:
        if name == b"prefer" and (found := _WAIT.search(value)):
            return int(found[1])
    return 0
