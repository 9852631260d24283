"""The agent protocol's models: quantities by Neon's tables, keys as Go reads them, versions and their names."""

from typing import Any

import pytest
from pydantic import ValidationError

from slackwater_protocol.agent import (
    AgentRequest,
    Metrics,
    Migrate,
    NotJson,
    PluginResponse,
    PodName,
    Resources,
    SlotResources,
    first_value,
)
from slackwater_protocol.agent_versions import (
    NEWEST,
    OLDEST,
    ProtocolVersion,
    counts_slots,
    has_extended_metrics,
    is_answered,
    version_name,
)

V5_0 = (
    b'{"protoVersion":7,"pod":{"namespace":"default","name":"vm-a-xyz"},"computeUnit":{"vCPUs":"250m","mem":"1Gi"},'
    b'"resources":{"vCPUs":2,"mem":"8Gi"},"lastPermit":{"vCPUs":1,"mem":"4Gi"},"metrics":{"loadAvg1M":1.7}}'
)


@pytest.mark.parametrize(
    ("wire", "want_milli", "want_bytes"),
    [
        (0.25, 250, 1),
        ("0.25", 250, 1),
        ("250m", 250, 1),
        (2, 2000, 2),
        ("2", 2000, 2),
        ("+2", 2000, 2),
        (" 2", 2000, 2),
        (1e3, 1_000_000, 1000),
        ("1k", 1_000_000, 1000),
        ("1.0001", 1001, 2),
        ("0.0001", 1, 1),
        ("100u", 1, 1),
        (None, 0, 0),
        ("1Ki", 1_024_000, 1024),
        ("4294967295m", 4294967295, 4294968),
    ],
)
def test_quantities_decode_as_in_the_table(wire: Any, want_milli: int, want_bytes: int) -> None:
    read = Resources.model_validate({"vCPUs": wire, "mem": wire})
    assert (read.milli_cpu, read.memory) == (want_milli, want_bytes)


def test_fractions_of_binary_sizes_are_exact() -> None:
    assert Resources.model_validate({"mem": "1.5Gi"}).memory == 1_610_612_736


@pytest.mark.parametrize("wire", ["", "abc", True, {}, [], " ", "1 Gi", -1, "-1m", 2**80, "1e40"])
def test_what_is_no_amount_is_refused(wire: Any) -> None:
    for key in ("vCPUs", "mem"):
        with pytest.raises(ValidationError):
            Resources.model_validate({key: wire})


@pytest.mark.parametrize(
    ("milli_cpu", "want"), [(0, 0), (250, "250m"), (1000, 1), (1500, "1500m"), (12_000, 12), (4294967295, "4294967295m")]
)
def test_cpu_encodes_as_in_the_table(milli_cpu: int, want: Any) -> None:
    assert Resources(milli_cpu=milli_cpu).model_dump()["vCPUs"] == want


@pytest.mark.parametrize(
    ("memory", "want"),
    [
        (1023, 1023),
        (1024, "1Ki"),
        (1025, "1025"),
        (10**9, "1000000000"),
        (2**30, "1Gi"),
        (3 * 2**29, "1536Mi"),
        (5 * 2**30, "5Gi"),
        (2**60, "1Ei"),
    ],
)
def test_memory_encodes_as_in_the_table_and_slots_as_an_integer(memory: int, want: Any) -> None:
    assert Resources(memory=memory).model_dump()["mem"] == want
    assert SlotResources(memory=memory).model_dump()["mem"] == memory


def test_a_request_is_written_as_agents_write_it() -> None:
    request = AgentRequest(
        proto_version=7,
        pod=PodName(namespace="default", name="vm-a-xyz"),
        compute_unit=Resources(milli_cpu=250, memory=2**30),
        resources=Resources(milli_cpu=2000, memory=8 * 2**30),
        last_permit=Resources(milli_cpu=1000, memory=4 * 2**30),
        metrics=Metrics(load_avg_1m=1.7),
    )
    assert request.to_body() == V5_0
    assert AgentRequest.from_body(V5_0) == request


def test_the_first_request_has_its_nulls_and_an_old_one_its_slots() -> None:
    request = AgentRequest(
        proto_version=5, pod=PodName(namespace="n", name="p"), resources=SlotResources(milli_cpu=1000, memory=4)
    )
    want = b'"pod":{"namespace":"n","name":"p"},"resources":{"vCPUs":1,"mem":4},"lastPermit":null,"metrics":null}'
    assert request.to_body() == b'{"protoVersion":5,' + want


def test_an_answer_names_a_migration_only_where_there_is_one() -> None:
    permit = Resources(milli_cpu=1500, memory=2**31)
    assert PluginResponse(permit=permit).to_body() == b'{"permit":{"vCPUs":"1500m","mem":"2Gi"}}'
    assert PluginResponse(permit=permit, migrate=Migrate()).to_body().endswith(b',"migrate":{}}')
    read = PluginResponse.model_validate_json(b'{"permit":{"vCPUs":1,"mem":"1Gi"},"migrate":{},"resourceUnit":{"vCPUs":1}}')
    assert read.migrate == Migrate()


def test_pythons_names_are_no_keys_of_the_wire() -> None:
    read = AgentRequest.from_body(b'{"proto_version":7,"resources":{"milli_cpu":3,"vcpus":1,"VCPUS":4}}')
    assert (read.proto_version, read.resources.milli_cpu) == (0, 4000)


def test_keys_fold_as_in_go() -> None:
    # Long s and the Kelvin sign fold to s and k.
    assert AgentRequest.from_body('{"re\u017fources":{"vCPU\u017f":1}}'.encode()).resources.milli_cpu == 1000


@pytest.mark.parametrize("body", [b'{"pod":null,"resources":null,"computeUnit":null,"protoVersion":null}', b"{}", b"null"])
def test_null_and_absence_are_zero(body: bytes) -> None:
    assert AgentRequest.from_body(body) == AgentRequest()


def test_broken_text_becomes_replacement_characters() -> None:
    assert AgentRequest.from_body(b'{"pod":{"name":"a\xff\\ud800b"}}').pod.name == "a\ufffd\ufffdb"
    assert AgentRequest.from_body(b'{"pod":{"name":"\\ud83d\\ude00"}}').pod.name == "\U0001f600"


@pytest.mark.parametrize("body", [b"", b"{", b"tru", b"NaN", b"-Infinity", b"'a'", b"{]", b"[" * 1020])
def test_what_does_not_begin_with_a_value_is_no_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        first_value(body)


def test_only_the_first_value_counts() -> None:
    assert first_value(b'\r\n\t {"a": 1}}{') == {"a": 1}
    assert first_value(b"12 13") == 12


@pytest.mark.parametrize(
    ("version", "want"),
    [
        (0, "<invalid: zero>"),
        (1, "v1.0"),
        (2, "v1.1"),
        (3, "v2.0"),
        (4, "v2.1"),
        (5, "v3.0"),
        (6, "v4.0"),
        (7, "v5.0"),
        (8, "<unknown = v5.0 + 1>"),
        (4294967295, "<unknown = v5.0 + 4294967288>"),
    ],
)
def test_versions_have_names(version: int, want: str) -> None:
    assert version_name(version) == want


def test_each_version_has_its_own_rules() -> None:
    rules = {v: (counts_slots(v), has_extended_metrics(v)) for v in ProtocolVersion}
    assert rules == {5: (True, True), 6: (False, True), 7: (False, False)}
    assert [v for v in range(10) if is_answered(v)] == [5, 6, 7]
    assert (OLDEST, NEWEST) == (5, 7)
