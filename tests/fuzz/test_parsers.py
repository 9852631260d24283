"""Every parser of what comes from outside: a value, or the one error that it documents. Never another, and never for ever.

A reflector skips an object that is `UNREADABLE`, and tells of it; any other error would end the service.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.cloud.externalgrpc.reading import template as external_template
from slackwater.adapters.http import agents, extender_messages
from slackwater.adapters.kube.auxiliary import decode_daemon_set, decode_job, decode_replicas, decode_workload
from slackwater.adapters.kube.config_maps import decode_priorities
from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, decode_budget, read_meta
from slackwater.adapters.kube.errors import UNREADABLE, MalformedAnswer
from slackwater.adapters.kube.headroom_requests import decode_buffer
from slackwater.adapters.kube.neon import decode_machine, decode_migration
from slackwater.adapters.kube.resource_type import pods
from slackwater.adapters.kube.storage import (
    decode_attachment,
    decode_capacity,
    decode_claim,
    decode_class,
    decode_csi_node,
    decode_driver,
    decode_namespace,
    decode_volume,
)
from slackwater.adapters.kube.watch_lines import KnownObjects, LineReader
from slackwater.app.settings import SettingsError, as_file, loads
from slackwater.app.settings.model import Settings
from slackwater.model.events import NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, PodUid
from slackwater.model.nodegroups import GroupName
from slackwater.model.pod_constraints import KindInterner
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record.replay import BadRecord, Replay
from slackwater.runtime.record_file import RecordError, frames_of
from slackwater_protocol import durations, units
from tests.fuzz.objects import (
    AGENT,
    BINDING,
    BUDGET,
    BUFFER,
    MACHINE,
    MIGRATION,
    NODE,
    PLACING,
    POD,
    PREEMPTION,
    STORED,
    TEMPLATED,
)
from tests.fuzz.sizes import tried
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.mangled import DEEP, mangled, mangled_bytes, spoiled, with_changes

PODS = PodDecoder(KindInterner())

DECODERS: dict[str, tuple[Callable[[bytes], Any], Any]] = {
    "pod": (PODS.decode, POD),
    "node": (NodeDecoder().decode, NODE),
    "budget": (decode_budget, BUDGET),
    "metadata": (read_meta, POD),
    "machine": (decode_machine, MACHINE),
    "migration": (decode_migration, MIGRATION),
    "buffer": (decode_buffer, BUFFER),
    "priorities": (decode_priorities, {"metadata": {"name": "p"}, "data": {"priorities": "10:\n  - .*\n"}}),
    "claim": (decode_claim, STORED["claim"]),
    "volume": (decode_volume, STORED["volume"]),
    "class": (decode_class, STORED["class"]),
    "CSI node": (decode_csi_node, STORED["csi-node"]),
    "driver": (decode_driver, STORED["driver"]),
    "capacity": (decode_capacity, STORED["capacity"]),
    "attachment": (decode_attachment, STORED["attachment"]),
    "namespace": (decode_namespace, {"metadata": {"name": "n", "labels": {"a": "b"}}}),
    "replicas": (decode_replicas, TEMPLATED),
    "job": (decode_job, {"spec": {"parallelism": 2, "completions": 3}, "status": {"succeeded": 1}}),
    "daemon set": (lambda raw: decode_daemon_set(PODS, raw), TEMPLATED),
    "workload": (lambda raw: decode_workload(PODS, ("apps", "Deployment"), raw, replicas=1), TEMPLATED),
    "placing": (lambda raw: asked(extender_messages.placing_args(raw)), PLACING),
    "binding": (extender_messages.binding_args, BINDING),
    "preemption": (extender_messages.preemption_args, PREEMPTION),
}


def asked(args: extender_messages.PlacingArgs) -> None:
    """What filter reads of a question."""
    extender_messages.head(args.Pod, "Pod")
    PODS.decode(bytes(args.Pod))
    if args.NodeNames != extender_messages.NULL:
        extender_messages.names(bytes(args.NodeNames))
    if args.Nodes != extender_messages.NULL:
        for item in extender_messages.node_items(args.Nodes):
            extender_messages.head(item, "Nodes.items[]")


def refused(read: Callable[[], Any], *errors: type[Exception]) -> Exception | None:
    """The error, where it is one of these; any other is the test's."""
    try:
        read()
    except errors as error:
        return error
    return None


@pytest.mark.parametrize("kind", DECODERS)
@tried
@given(data=st.data())
def test_an_object_is_read_or_refused_as_unreadable(kind: str, data: st.DataObject) -> None:
    decode, document = DECODERS[kind]
    body = data.draw(mangled_bytes(document))
    refused(lambda: decode(body), *UNREADABLE, extender_messages.BadRequest)


#: Of any length: the API server stores what `resource.Quantity` reads.
LONG_QUANTITIES = (
    "9" * 1001,
    "1" + "0" * 5000 + "Ki",
    "0" * 5000 + "1",
    "0." + "0" * 5000 + "1",
    f"7{'0' * 5000}e-5000",
    "1e5000",
    "+.5e-9",
)
AMOUNTS = {"requests", "limits", "overhead", "allocatable", "capacity", "allocatedResources", "maximumVolumeSize"}


def with_amounts(value: Any, amount: str, *, within: bool = False) -> Any:
    """The document with this amount for every quantity in it."""
    if isinstance(value, dict):
        return {key: with_amounts(each, amount, within=within or key in AMOUNTS) for key, each in value.items()}
    if isinstance(value, list):
        return [with_amounts(each, amount) for each in value]
    return amount if within and isinstance(value, str) else value


@pytest.mark.parametrize("kind", DECODERS)
def test_quantities_of_any_length_are_read_everywhere(kind: str) -> None:
    decode, document = DECODERS[kind]
    for amount in LONG_QUANTITIES:
        decode(json.dumps(with_amounts(document, amount)).encode())


@pytest.mark.parametrize("kind", sorted(set(DECODERS) - {"placing", "binding", "preemption", "priorities"}))
@pytest.mark.parametrize("where", ["metadata", "unread"])
def test_an_object_is_read_however_deep_the_api_server_lets_it_be(kind: str, where: str) -> None:
    """As `managedFields` and the opaque parameters of a claim may be."""
    decode, document = DECODERS[kind]
    nested = json.dumps({**document, where: {**document.get(where, {}), "deep": "DEEP"}})
    decode(nested.replace('"DEEP"', '{"f:a":' * 9_990 + "{}" + "}" * 9_990).encode())


ANNOTATIONS = POD["metadata"]["annotations"]


@pytest.mark.parametrize("name", ANNOTATIONS)
@tried
@given(data=st.data())
def test_whatever_an_annotation_says_the_pod_can_be_read(name: str, data: st.DataObject) -> None:
    text = data.draw(st.text(max_size=30) | spoiled(ANNOTATIONS[name].encode()).map(lambda text: text.decode("latin-1")))
    pod = with_changes(POD, [(("metadata", "annotations", name), text)])
    assert PODS.decode(json.dumps(pod).encode()).key.name == "p"


class Broken(list[str]):
    def __call__(self, _resource: str, name: str, _error: Exception) -> None:
        self.append(name)


@tried
@given(data=st.data())
def test_a_watch_goes_on_behind_objects_that_cannot_be_read(data: st.DataObject) -> None:
    broken = Broken()
    reader = LineReader(pods(KindInterner(), broken), KnownObjects(lambda key, uid: PodGone(PodUid(uid), key)))
    bad = data.draw(mangled(POD).map(lambda pod: json.dumps({"type": "MODIFIED", "object": pod}).encode()))
    good = json.dumps({"type": "ADDED", "object": {**POD, "metadata": {**POD["metadata"], "name": "q"}}}).encode()
    reading = reader.read_lines([bad, good], since="1")
    assert reading.ended_by is None
    assert [event.pod.key.name for event in reading.events if isinstance(event, PodSeen)][-1:] == ["q"]


def test_a_line_that_is_nested_without_end_ends_the_watch_and_not_the_service() -> None:
    reader = LineReader(pods(KindInterner(), Broken()), KnownObjects(lambda key, uid: PodGone(PodUid(uid), key)))
    line = b'{"type": "ADDED", "object": {"x": ' + b"[" * DEEP
    assert isinstance(reader.read_lines([line], since="1").ended_by, MalformedAnswer)


@tried
@given(body=mangled_bytes(AGENT))
def test_an_agents_request_is_read_or_refused_with_words(body: bytes) -> None:
    error = refused(lambda: agents.read_ask(body), agents.InvalidBody)
    assert error is None or (isinstance(error, agents.InvalidBody) and str(error.text))


@tried
@given(body=st.binary(max_size=200))
def test_a_template_of_an_external_provider_is_read_or_refused(body: bytes) -> None:
    refused(lambda: external_template(body, GroupName("g")), ValueError)


NUMBERS = st.text("0123456789.eE+-_ \u0660mknuKMGTPEi", max_size=24) | st.text(max_size=10)


@pytest.mark.parametrize(
    "read",
    [units.milli_cpu, units.byte_count, units.whole, units.quantity_from_json, durations.parse_duration],
    ids=lambda read: read.__name__,
)
@tried
@given(text=NUMBERS)
def test_quantities_and_durations_are_read_or_refused(read: Callable[[str], Any], text: str) -> None:
    refused(lambda: read(text), ValueError)


FILE = as_file(Settings())


@tried
@given(body=mangled_bytes(FILE))
def test_a_configuration_file_is_read_or_refused_with_places(body: bytes) -> None:
    error = refused(lambda: loads(body.decode("utf-8", "replace")), SettingsError)
    assert error is None or (isinstance(error, SettingsError) and error.problems)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a record of a small world."""
    path = tmp_path_factory.mktemp("record") / "decisions.rec"
    frames: list[bytes] = []
    state_machine = RecordedStateMachine(installed.POLICY, seed=7, write_frame=frames.append)
    state_machine.apply(NodeSeen(a_node("n")), Instant(0.0))
    pod = a_pod("p")
    state_machine.apply(PodSeen(pod), Instant(1.0))
    state_machine.apply(Synced(), Instant(2.0))
    state_machine.filter(pod, np.array([0]), Instant(3.0))
    with gzip.open(path, "wb") as file:
        for frame in frames:
            file.write(len(frame).to_bytes(4, "big") + frame)
    return path.read_bytes()


@tried
@given(data=st.data())
def test_a_record_is_repeated_or_refused(record: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    plain = gzip.decompress(record)
    path = tmp_path_factory.getbasetemp() / "spoiled.rec"
    path.write_bytes(data.draw(spoiled(record) | spoiled(plain).map(gzip.compress)))
    refused(lambda: list(Replay(frames_of(str(path))).differences()), RecordError, BadRecord)


def test_the_documents_themselves_are_read(record: bytes, tmp_path: Path) -> None:
    for kind, (decode, document) in DECODERS.items():
        assert decode(json.dumps(document).encode()) is not NotImplemented, kind
    agents.read_ask(json.dumps(AGENT).encode())
    path = tmp_path / "whole.rec"
    path.write_bytes(record)
    replay = Replay(frames_of(str(path)))
    assert list(replay.differences()) == []
    assert replay.frames == 4
