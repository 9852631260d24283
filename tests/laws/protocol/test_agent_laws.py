"""Laws of the agent protocol: both ways of reading agree, what is written is read back, blanks mean nothing."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from slackwater.adapters.http import agents
from slackwater.model.ids import PodKey
from slackwater.model.permits import Load, PermitAnswer, PermitAsk
from slackwater_protocol.agent import (
    LARGEST_CPU,
    OUT_OF_RANGE,
    AgentRequest,
    Metrics,
    Migrate,
    NotJson,
    PluginResponse,
    PodName,
    Resources,
    SlotResources,
)
from slackwater_protocol.agent_versions import ProtocolVersion, counts_slots
from slackwater_protocol.units import LARGEST
from tests.support.permitservice import amounts

CPUS = st.integers(0, LARGEST_CPU) | st.integers(0, 64).map(lambda units: units * 250)
MEMORIES = st.integers(0, LARGEST - 1) | st.integers(0, 512).map(lambda slots: slots << 30)
QUANTITIES: st.SearchStrategy[Any] = (
    st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.from_regex(r"\A[ +-]?[0-9]{0,6}(\.[0-9]{0,3})?(m|u|n|k|M|G|E|Ki|Mi|Gi|Ei|e3|x)?\Z")
    | st.sampled_from([None, True, "", [], {}])
)
LOADS = st.floats(-1, 1e6) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([None, "1", True, 1, 0])
WORDS = st.sampled_from(["vm", "default", "", "\ud800", "é", None, 1])


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these keys, in some case, perhaps one more; sometimes null or no object at all."""
    keyed = st.fixed_dictionaries({}, optional={**fields, "more": st.none()})
    cased = st.tuples(keyed, st.sampled_from([str, str, str, str.upper, str.lower])).map(
        lambda pair: {pair[1](key): value for key, value in pair[0].items()}
    )
    return st.one_of(st.fixed_dictionaries(fields), cased, st.sampled_from([None, 1]))


RESOURCES = maybe(vCPUs=QUANTITIES, mem=QUANTITIES)
REQUESTS = maybe(
    protoVersion=st.integers(-1, 9) | st.sampled_from([5, 6, 7, 7.0, 2**32]),
    pod=maybe(namespace=WORDS, name=WORDS),
    computeUnit=RESOURCES,
    resources=RESOURCES,
    lastPermit=RESOURCES,
    metrics=maybe(loadAvg1M=LOADS, loadAvg5M=LOADS, memoryUsageBytes=LOADS),
)
BODIES = st.tuples(REQUESTS, st.sampled_from(["", " ", "\n{", "x"])).map(lambda pair: (json.dumps(pair[0]) + pair[1]).encode())


def by_the_models(body: bytes) -> PermitAsk | str:
    """What the models alone make of a body: the question, or the text of the refusal ("…" for an amount out of range)."""
    try:
        request = AgentRequest.from_body(body)
    except NotJson:
        return "bad JSON"
    except ValidationError as error:
        return "bad JSON" if any(fault["type"] != OUT_OF_RANGE for fault in error.errors()) else "…"
    if (problem := request.problem()) is not None:
        return problem
    unit, permitted, metrics = request.compute_unit, request.last_permit, request.metrics
    return PermitAsk(
        key=PodKey(request.pod.namespace, request.pod.name),
        version=request.proto_version,
        asked=amounts(request.resources.milli_cpu, request.resources.memory),
        last_permit=None if permitted is None else amounts(permitted.milli_cpu, permitted.memory),
        compute_unit=None if unit is None or unit == Resources() else amounts(unit.milli_cpu, unit.memory),
        load=None if metrics is None else as_load(metrics),
        slots=request.proto_version < ProtocolVersion.V4_0,
    )


def as_load(metrics: Metrics) -> Load:
    load5, usage = metrics.load_avg_5m, metrics.memory_usage_bytes
    return Load(
        load1_micro=round(metrics.load_avg_1m * 1_000_000),
        load5_micro=None if load5 is None else round(load5 * 1_000_000),
        memory_usage_bytes=None if usage is None else round(usage),
    )


def by_the_service(body: bytes) -> PermitAsk | str:
    try:
        return agents.read_ask(body)
    except agents.InvalidBody as refused:
        return "…" if ": got " in refused.text else refused.text


@given(body=BODIES | st.binary(max_size=64))
@example(
    body=b'{"protoVersion":7,"pod":{"namespace":"a","name":"b"},"resources":{"vCPUs":1,"mem":1},"resources":{"vCPUs":2,"mem":2}}'
)
@example(
    body=b'{"protoVersion":5,"pod":{"namespace":"a","name":"b"},"resources":{"vCPUs":1,"mem":1},"computeUnit":{"vCPUs":0,"mem":0}}'
)
def test_the_quick_way_and_the_models_read_the_same(body: bytes) -> None:
    assert by_the_service(body) == by_the_models(body)


def requests() -> st.SearchStrategy[AgentRequest]:
    def of(version: ProtocolVersion) -> st.SearchStrategy[AgentRequest]:
        kind: type[Resources] = SlotResources if counts_slots(version) else Resources
        resources = st.builds(kind, milli_cpu=CPUS, memory=MEMORIES)
        loads = st.floats(0, 1e30)
        metrics = st.builds(Metrics, load_avg_1m=loads, load_avg_5m=st.none() | loads, memory_usage_bytes=st.none() | loads)
        return st.builds(
            AgentRequest,
            proto_version=st.just(version),
            pod=st.builds(PodName, namespace=st.text(max_size=20), name=st.text(max_size=20)),
            compute_unit=st.none() | resources,
            resources=resources,
            last_permit=st.none() | resources,
            metrics=st.none() | metrics,
        )

    return st.sampled_from(ProtocolVersion).flatmap(of)


@given(request=requests())
def test_a_request_that_is_written_is_read_back(request: AgentRequest) -> None:
    read = AgentRequest.from_body(request.to_body())
    assert read.model_dump() == request.model_copy().model_dump() or counts_slots(request.proto_version)
    for part in ("compute_unit", "resources", "last_permit"):
        one, other = getattr(read, part), getattr(request, part)
        assert (one and (one.milli_cpu, one.memory)) == (other and (other.milli_cpu, other.memory))
    assert (read.pod, read.metrics, read.problem()) == (request.pod, request.metrics, request.problem())


@given(version=st.sampled_from(ProtocolVersion), cpu=CPUS, slots=st.integers(0, 65_535), migrate=st.booleans())
def test_the_services_answers_are_those_of_the_model(version: ProtocolVersion, cpu: int, slots: int, migrate: bool) -> None:
    answer = PermitAnswer(permit=amounts(cpu, slots << 30), slot_bytes=1 << 30, migrate=migrate, permit_limit_pending=False)
    if counts_slots(version):
        permit: Resources = SlotResources(milli_cpu=cpu, memory=slots)
    else:
        permit = Resources(milli_cpu=cpu, memory=slots << 30)
    want = PluginResponse(permit=permit, migrate=Migrate() if migrate else None)
    body = agents.written(answer, slots=counts_slots(version))
    assert body == want.to_body()
    read = PluginResponse.model_validate_json(body)
    assert (read.permit.milli_cpu, read.permit.memory) == (permit.milli_cpu, permit.memory)


@pytest.mark.parametrize("text", ["250m", "1", "1500m", "12", "1Ki", "1025", "1Mi", "+2"])
@given(blanks=st.integers(0, 3))
def test_blanks_around_a_quantity_mean_nothing(text: str, blanks: int) -> None:
    padded = Resources.model_validate({"vCPUs": " " * blanks + text + " " * blanks})
    assert padded == Resources.model_validate({"vCPUs": text})
