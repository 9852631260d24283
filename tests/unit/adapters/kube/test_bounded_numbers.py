"""Every number that comes from outside is bounded where it is read: an int64 column never sees more."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, version_number
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.resource_type import nodes, pods
from slackwater.adapters.kube.structs import PodWire
from slackwater.adapters.kube.vertical import read_vertical
from slackwater.adapters.kube.watch_lines import KnownObjects, LineReader
from slackwater.model.events import NodeGone, ObjectUnreadable, PodGone, PodSeen
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.permits import read_written
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.resources import LARGEST_AMOUNT, LARGEST_ON_NODE
from slackwater_protocol.names import BOUNDS, NEON_BOUNDS, NEON_VM_RESOURCES

UNIT = '{"vCPUs":1,"mem":"1Gi"}'
HUGE = "9" * 5000


def permit(**given: str) -> str:
    fields = {"permit": UNIT, "limit": UNIT, "pod": '"p"', "number": "1", "epoch": "1", **given}
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


def test_a_permit_as_the_service_writes_it_is_read() -> None:
    assert read_written(permit()) is not None


@pytest.mark.parametrize("name", ["number", "epoch"])
@pytest.mark.parametrize("value", ["1e999", "Infinity", "NaN", HUGE, "-1", "1.5", "true", '"7"', str(2**53), "null", "[]"])
def test_a_counter_of_a_permit_that_is_no_bounded_whole_number_makes_it_unreadable(name: str, value: str) -> None:
    assert read_written(permit(**{name: value})) is None


@pytest.mark.parametrize("amount", ['"8Ei"', '"9e18"', "1e999", '"-1"', HUGE, str(2**51), '"x"', "null"])
@pytest.mark.parametrize("name", ["permit", "limit"])
def test_amounts_of_a_permit_above_what_any_node_has_make_it_unreadable(name: str, amount: str) -> None:
    assert read_written(permit(**{name: f'{{"vCPUs":1,"mem":{amount}}}'})) is None


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3)))
def test_any_json_value_as_a_permit_is_unreadable_and_no_error(value: object) -> None:
    text = json.dumps(value)
    assert read_written(text) is None
    assert read_written(permit(permit=text, number=text)) is None


def sizes(count: str, slot: str) -> str:
    cpus = '{"min":"0.25","max":"1","use":"0.25"}'
    return f'{{"cpus":{cpus},"memorySlots":{{"min":1,"max":{count},"use":1}},"memorySlotSize":{slot}}}'


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (NEON_VM_RESOURCES, sizes(str(2**62), '"1Gi"')),
        (NEON_VM_RESOURCES, sizes("16", '"8Ei"')),
        (NEON_VM_RESOURCES, sizes("16", '"-1Gi"')),
        (NEON_VM_RESOURCES, sizes(HUGE, '"1Gi"')),
        (NEON_VM_RESOURCES, sizes("1e999", '"1Gi"')),
        (BOUNDS, '{"min":{"cpu":1,"mem":"1Gi"},"max":{"cpu":1,"mem":"8Ei"}}'),
        (BOUNDS, '{"min":{"cpu":1,"mem":"1Gi"},"max":{"cpu":"9e18","mem":"1Gi"}}'),
        (BOUNDS, '{"min":{"cpu":-1,"mem":"1Gi"},"max":{"cpu":1,"mem":"1Gi"}}'),
    ],
)
def test_sizes_that_no_machine_has_are_refused_with_the_annotations_name(annotation: str, text: str) -> None:
    wire = msgspec.json.decode(a_pod(annotations={annotation: text}), type=PodWire)
    with pytest.raises(ValueError, match=annotation):
        read_vertical(wire)
    pod = PodDecoder(KindInterner()).decode(a_pod(annotations={annotation: text}))
    assert (pod.vertical, pod.vertical_problem is None) == (None, False), "the pod itself is read, and counts by its requests"


def test_bounds_of_a_machine_are_bounded_too() -> None:
    text = '{"min":{"cpu":"0.25","mem":"1Gi"},"max":{"cpu":"1","mem":"8Ei"}}'
    pod = PodDecoder(KindInterner()).decode(a_pod(annotations={NEON_VM_RESOURCES: sizes("16", '"1Gi"'), NEON_BOUNDS: text}))
    assert pod.vertical_problem is not None


def a_pod(
    *, requests: dict[str, object] | None = None, annotations: dict[str, str] | None = None, copies: int = 1, **spec: object
) -> bytes:
    containers = [{"name": f"c{n}", "resources": {"requests": requests or {"cpu": 1, "memory": "1Gi"}}} for n in range(copies)]
    metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "5", "annotations": annotations or {}}
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": containers, **spec}})


@pytest.mark.parametrize("amount", ["5Ei", "9e999", "9" * 400, 2**62])
def test_requests_are_capped_also_when_a_pods_containers_are_summed(amount: object) -> None:
    requests = {"cpu": amount, "memory": amount, "example.com/gpu": amount}
    kind = PodDecoder(KindInterner()).decode(a_pod(requests=requests, copies=20)).kind
    assert kind.requests == (LARGEST_AMOUNT, LARGEST_AMOUNT)
    assert kind.pod_constraints is not None
    assert dict(kind.pod_constraints.scalars) == {"example.com/gpu": LARGEST_AMOUNT}


def test_a_pod_of_the_largest_amount_fits_on_no_node_whatever_the_node_reports() -> None:
    reported = {"cpu": "9e18", "memory": "8Ei", "example.com/gpu": "9e18"}
    raw = msgspec.json.encode({"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": reported}})
    node = NodeDecoder().decode(raw)
    assert node.allocatable == (LARGEST_ON_NODE, LARGEST_ON_NODE)
    assert dict(node.scalars) == {"example.com/gpu": LARGEST_ON_NODE}
    assert LARGEST_ON_NODE < LARGEST_AMOUNT


@pytest.mark.parametrize("amount", ["-1", "-1Gi", "-0.5"])
def test_a_negative_request_is_refused(amount: str) -> None:
    with pytest.raises(ValueError, match="negative"):
        PodDecoder(KindInterner()).decode(a_pod(requests={"cpu": 1, "memory": amount}))


@pytest.mark.parametrize("minor", ["1.36.3", "1.37.2"])
def test_a_negative_amount_in_a_status_counts_as_nothing(minor: str) -> None:
    """The API server checks what is asked for, and not what a kubelet reports."""
    negative = {"cpu": "-5", "memory": "1Gi", "example.com/gpu": "-1"}
    body = json.loads(a_pod(nodeName="n", resources={"requests": {"cpu": 1}}))
    body["status"] = {
        "containerStatuses": [{"name": "c0", "resources": {"requests": negative}, "allocatedResources": negative}],
        "resources": {"requests": negative},
        "allocatedResources": negative,
    }
    pod = PodDecoder(KindInterner(), KubernetesVersion.parse(minor)).decode(json.dumps(body).encode())
    assert pod.kind.requests == (1000, 2**30)


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("0000-02-29T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("-001-12-31T10:00:00Z", "0001-01-01T00:00:00Z"),
        ("10000-01-01T13:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_before_or_after_all_years_that_python_knows_is_the_first_or_the_last(written: str, want: str) -> None:
    body = json.loads(a_pod(nodeName="n")) | {"status": {"startTime": written}}
    body["metadata"] |= {"creationTimestamp": written, "deletionTimestamp": written}
    pod = PodDecoder(KindInterner()).decode(json.dumps(body).encode())
    assert (pod.created_at, pod.started_at) == (want, want)


@pytest.mark.parametrize("spec", [{"priority": 2**31}, {"priority": int("9" * 400)}, {"terminationGracePeriodSeconds": 2**63}])
def test_a_number_wider_than_the_apis_own_type_is_refused(spec: dict[str, object]) -> None:
    body = json.loads(a_pod())
    body["spec"] |= spec
    with pytest.raises(UNREADABLE):
        PodDecoder(KindInterner()).decode(json.dumps(body).encode())


def test_a_resource_version_is_at_most_an_int64() -> None:
    assert version_number("9" * 20) == 2**63 - 1


# --- what cannot be read ------------------------------------------------------------------------------------------------


def line(kind: str, body: bytes) -> bytes:
    return msgspec.json.encode({"type": kind, "object": msgspec.Raw(body)})


def test_a_bound_pod_that_cannot_be_read_is_given_out_as_unreadable_and_later_as_gone() -> None:
    broken: list[str] = []
    resource = pods(KindInterner(), lambda _kind, name, _error: broken.append(name))
    reader = LineReader(resource, KnownObjects(resource.gone))
    bad = a_pod(requests={"cpu": "-1"}, nodeName="n")
    (event,) = reader.read_lines([line("ADDED", bad)], since="1").events
    assert isinstance(event, ObjectUnreadable)
    assert (event.uid, event.name, event.node) == ("u", "pod default/p", "n")
    assert broken == ["default/p"]
    assert reader.read_lines([line("MODIFIED", bad)], since="5").events == [], "once for each version"
    deleted = reader.read_lines([line("DELETED", bad)], since="5").events
    assert deleted == [PodGone(PodUid("u"), PodKey("default", "p"))]


def test_an_unreadable_pod_of_a_list_is_an_event_too_and_is_read_again_once_it_is_readable() -> None:
    resource = pods(KindInterner(), lambda *_: None)
    given = KnownObjects(resource.gone)
    reader = LineReader(resource, given)
    given.begin_list()
    (event,) = reader.read_items([msgspec.Raw(a_pod(requests={"cpu": "-1"}, nodeName="n"))])
    assert isinstance(event, ObjectUnreadable)
    assert list(given.end_list()) == [], "it is there"
    mended = a_pod(nodeName="n").replace(b'"resourceVersion":"5"', b'"resourceVersion":"6"')
    (seen,) = reader.read_lines([line("MODIFIED", mended)], since="5").events
    assert isinstance(seen, PodSeen)


@pytest.mark.parametrize("ended", ["Succeeded", "Failed"])
def test_an_unreadable_pod_that_has_ended_closes_no_node(ended: str) -> None:
    resource = pods(KindInterner(), lambda *_: None)
    body = json.loads(a_pod(requests={"cpu": "-1"}, nodeName="n")) | {"status": {"phase": ended}}
    (event,) = LineReader(resource, KnownObjects(resource.gone)).read_items([msgspec.Raw(json.dumps(body).encode())])
    assert isinstance(event, ObjectUnreadable)
    assert event.node is None


def test_a_node_that_cannot_be_read_is_reported_by_its_name() -> None:
    resource = nodes(lambda *_: None)
    raw = msgspec.json.encode({"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": {"cpu": "x"}}})
    reader = LineReader(resource, KnownObjects(resource.gone))
    (event,) = reader.read_lines([line("ADDED", raw)], since="1").events
    assert isinstance(event, ObjectUnreadable)
    assert event.node == "n"
    assert reader.read_lines([line("DELETED", raw)], since="1").events == [NodeGone(NodeName("n"))]
