"""Every rule about a single value: the exact place and words of its refusal, and what is accepted."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.settings import Settings, SettingsError, UnreadableSettings, load, loads
from slackwater.app.settings.reading import REMOVED
from slackwater_protocol.durations import MINUTE, SECOND
from tests.support.configuration import HEADER

GROUP = "autoscaler: {nodeGroups: [{name: pool-a, "


def messages(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        loads(HEADER + text)
    return [str(problem) for problem in caught.value.problems]


QUANTITY = "a Kubernetes quantity {} such as {}"
REFUSALS = [
    # text, names, switches
    ("schedulerName: 5", "schedulerName: got 5, want {name}"),
    ('schedulerName: "Not_A_Name"', 'schedulerName: got "Not_A_Name", want {name}'),
    ("schedulerName: " + "a" * 64, f'schedulerName: got "{"a" * 64}", want at most 63 characters'),
    (
        "schedulerName: no",
        'schedulerName: got no without quotes (false in YAML 1.1), want "no" with quotes where text is meant',
    ),
    ("schedulerName: null", "schedulerName: got null, want {name}"),
    ("extender: {bind: on}", "extender.bind: got on without quotes (true in YAML 1.1), want true or false"),
    ('extender: {bind: "true"}', 'extender.bind: got "true", want true or false'),
    ("extender: {bind: 1}", "extender.bind: got 1, want true or false"),
    # unknown keys
    (
        "nodes: {watermrk: {cpu: 1}}",
        "nodes.watermrk: got an unknown key, want one of watermark, system, score (did you mean watermark?)",
    ),
    (
        "scheduler_name: x",
        "scheduler_name: got an unknown key, want one of apiVersion, kind, mode, shadow, schedulerName, scheduler, "
        "featureGates, leaderElection, listeners, extender, nodes, vertical, migration, preemption, autoscaler, kube, audit, "
        "recording, history, report, explain, notifications (did you mean schedulerName?)",
    ),
    (
        "featureGates: {Foo: true}",
        "featureGates.Foo: got an unknown key, want one of AsyncPreemption, ParallelDrain, ResourceSlack",
    ),
    (
        GROUP + "minSiz: 1}]}",
        "autoscaler.nodeGroups[0].minSiz: got an unknown key, want one of name, provider, id, minSize, maxSize, enabled, "
        "maxNodesInCreation, price, scaleDown, template, kwok (did you mean minSize?)",
    ),
    # keys of former versions
    (
        "steering: {minNodes: 0}",
        "steering: got a key that was removed, want extender.percentageOfNodesToScore for steering.percentageOfNodesToScore, "
        "and nothing for its other keys: no pod is nominated in advance any more",
    ),
    ("preemption: {enabled: false}", "preemption.enabled: got a key that was removed, want featureGates.AsyncPreemption"),
    (
        "autoscaler: {scaleDown: {maxEmptyBulkDelete: 3}}",
        "autoscaler.scaleDown.maxEmptyBulkDelete: got a key that was removed, want maxScaleDownParallelism",
    ),
    (
        "featureGates: {Steering: true}",
        "featureGates.Steering: got a key that was removed, want extender.bind alone: false names the best node in filter, "
        "true leaves the choice to kube-scheduler",
    ),
    ('nodes: {"a.b": 1}', 'nodes["a.b"]: got an unknown key, want one of watermark, system, score'),
    # sections and lists
    ("listeners:", "listeners: got null, want a mapping with extender, agents, ops"),
    ("nodes: [1]", "nodes: got a list, want a mapping with watermark, system, score"),
    ("autoscaler: {nodeGroups: {}}", "autoscaler.nodeGroups: got a mapping, want a list"),
    ("autoscaler: {nodeGroups: [x]}", 'autoscaler.nodeGroups[0]: got "x", want a mapping with {group}'),
    ("autoscaler: {expanders: []}", "autoscaler.expanders: got a list, want at least one expander"),
    (
        "autoscaler: {expanders: [cheapest]}",
        'autoscaler.expanders[0]: got "cheapest", '
        'want "random" or "most-pods" or "least-nodes" or "least-waste" or "price" or "priority"',
    ),
    # addresses and files
    ("listeners: {ops: {address: 10298}}", "listeners.ops.address: got 10298, want {address}"),
    ('listeners: {ops: {address: ":10298"}}', 'listeners.ops.address: got ":10298", want {address}'),
    ('listeners: {ops: {address: "h:0"}}', 'listeners.ops.address: got "h:0", want {address}'),
    ('listeners: {ops: {address: "h:65536"}}', 'listeners.ops.address: got "h:65536", want {address}'),
    ('listeners: {ops: {address: "::1:80"}}', 'listeners.ops.address: got "::1:80", want {address}'),
    ('listeners: {ops: {address: "1.2.3:80"}}', 'listeners.ops.address: got "1.2.3:80", want {address}'),
    ('listeners: {ops: {address: "[1.2.3.4]:80"}}', 'listeners.ops.address: got "[1.2.3.4]:80", want {address}'),
    ("listeners: {ops: {tls: {certFile: a}}}", "listeners.ops.tls.keyFile: got nothing, want the path of a file"),
    ("listeners: {ops: {tls: {keyFile: a}}}", "listeners.ops.tls.certFile: got nothing, want the path of a file"),
    (
        'listeners: {ops: {tls: {certFile: "", keyFile: a}}}',
        'listeners.ops.tls.certFile: got "", want the path of a file',
    ),
    (
        'extender: {schedulerTLS: {serverName: "a b"}}',
        'extender.schedulerTLS.serverName: got "a b", want a DNS name or IP address',
    ),
    # numbers
    ("extender: {weight: 0}", "extender.weight: got 0, want a whole number >= 1 and <= 100"),
    ("extender: {weight: 1.0}", "extender.weight: got 1.0, want a whole number >= 1 and <= 100"),
    ("extender: {weight: true}", "extender.weight: got true, want a whole number >= 1 and <= 100"),
    (
        "extender: {weight: 010}",
        "extender.weight: got 010 without quotes (8 in YAML 1.1), want a whole number >= 1 and <= 100",
    ),
    ("nodes: {watermark: {cpu: 1.5}}", "nodes.watermark.cpu: got 1.5, want > 0 and <= 1"),
    ("nodes: {watermark: {cpu: 0}}", "nodes.watermark.cpu: got 0, want > 0 and <= 1"),
    ("nodes: {watermark: {memory: .nan}}", "nodes.watermark.memory: got NaN, want > 0 and <= 1"),
    ('nodes: {watermark: {memory: "1"}}', 'nodes.watermark.memory: got "1", want a number > 0 and <= 1'),
    ("nodes: {watermark: {memory: 1e999}}", "nodes.watermark.memory: got Infinity, want > 0 and <= 1"),
    ("nodes: {score: {minUsage: -0.1}}", "nodes.score.minUsage: got -0.1, want >= 0 and <= 1"),
    ("nodes: {score: {maxUsage: 1.1}}", "nodes.score.maxUsage: got 1.1, want >= 0 and <= 1"),
    ("nodes: {score: {peak: 2}}", "nodes.score.peak: got 2, want >= 0 and <= 1"),
    ("migration: {capacityPressureWeight: -1}", "migration.capacityPressureWeight: got -1, want >= 0"),
    ("migration: {maxConcurrent: 0}", "migration.maxConcurrent: got 0, want {width}"),
    ("vertical: {maxStepUnits: -1}", "vertical.maxStepUnits: got -1, want {count}"),
    ("kube: {maxConcurrentWrites: 0}", "kube.maxConcurrentWrites: got 0, want {width}"),
    (
        "autoscaler: {scaleDown: {utilizationThreshold: 50}}",
        "autoscaler.scaleDown.utilizationThreshold: got 50, want >= 0 and <= 1",
    ),
    (GROUP + "minSize: -1}]}", "autoscaler.nodeGroups[0].minSize: got -1, want {count}"),
    # durations
    ("extender: {httpTimeout: 5}", 'extender.httpTimeout: got 5, want a duration >= 1s and <= 30s such as "5s"'),
    ("extender: {httpTimeout: 999ms}", 'extender.httpTimeout: got "999ms", want a duration >= 1s and <= 30s such as "5s"'),
    ("extender: {httpTimeout: 1m}", 'extender.httpTimeout: got "1m", want a duration >= 1s and <= 30s such as "5s"'),
    ("extender: {holdTimeout: 0s}", 'extender.holdTimeout: got "0s", want a duration > 0 such as "5s"'),
    ("extender: {holdTimeout: 10 s}", 'extender.holdTimeout: got "10 s", want a duration > 0 such as "5s"'),
    ("extender: {holdTimeout: 1d}", 'extender.holdTimeout: got "1d", want a duration > 0 such as "5s"; 1d is 24h'),
    ("autoscaler: {scanInterval: 0}", 'autoscaler.scanInterval: got 0, want a duration > 0 such as "5s"'),
    (
        "autoscaler: {maxPlanningTime: -1s}",
        'autoscaler.maxPlanningTime: got "-1s", want a duration >= 0 such as "10m"',
    ),
    # quantities
    ("nodes: {system: {cpu: 1x}}", f'nodes.system.cpu: got "1x", want {QUANTITY.format(">= 0", chr(34) + "250m" + chr(34))}'),
    ("nodes: {system: {cpu: -1}}", f"nodes.system.cpu: got -1, want {QUANTITY.format('>= 0', chr(34) + '250m' + chr(34))}"),
    (
        "nodes: {system: {memory: 1gi}}",
        f'nodes.system.memory: got "1gi", want {QUANTITY.format(">= 0", chr(34) + "1Gi" + chr(34))}',
    ),
    (
        "vertical: {computeUnit: {vCPUs: 0}}",
        f"vertical.computeUnit.vCPUs: got 0, want {QUANTITY.format('> 0', chr(34) + '250m' + chr(34))}",
    ),
    (
        "vertical: {computeUnit: {mem: 8Ei}}",
        f'vertical.computeUnit.mem: got "8Ei", want {QUANTITY.format("> 0", chr(34) + "1Gi" + chr(34))}, less than 2^63 units',
    ),
    (
        "recording: {maxBytes: true}",
        f"recording.maxBytes: got true, want {QUANTITY.format('> 0', chr(34) + '1Gi' + chr(34))}",
    ),
    # choices
    ("vertical: {missingRequests: ignore}", 'vertical.missingRequests: got "ignore", want "reject" or "zero"'),
    (
        GROUP + "provider: gce}]}",
        'autoscaler.nodeGroups[0].provider: got "gce", want "aws" or "kwok" or "clusterapi" or "externalgrpc" or "karpenter"',
    ),
    (
        "autoscaler: {slack: {extraCapacity: {sizing: v3}}}",
        'autoscaler.slack.extraCapacity.sizing: got "v3", want "v1" or "v2"',
    ),
    # node groups
    ("autoscaler: {nodeGroups: [{}]}", "autoscaler.nodeGroups[0].name: got nothing, want {label}"),
    ("autoscaler: {nodeGroups: [{name: -a}]}", 'autoscaler.nodeGroups[0].name: got "-a", want {label}'),
    (
        GROUP + "template: {metadata: {labels: {a/b: 1}}}}]}",
        'autoscaler.nodeGroups[0].template.metadata.labels["a/b"]: got 1, want a label value (text: quote numbers and '
        "true/false)",
    ),
    (
        GROUP + "template: {metadata: {labels: {-a: b}}}}]}",
        'autoscaler.nodeGroups[0].template.metadata.labels["-a"]: got the key "-a", want {qualified}',
    ),
    (
        GROUP + "template: {status: {capacity: {a b: 1}}}}]}",
        'autoscaler.nodeGroups[0].template.status.capacity["a b"]: got the key "a b", want {qualified}',
    ),
    (
        GROUP + "template: {spec: {taints: [{key: a}]}}}]}",
        "autoscaler.nodeGroups[0].template.spec.taints[0].effect: got nothing, want "
        '"NoSchedule" or "PreferNoSchedule" or "NoExecute"',
    ),
    (
        GROUP + "template: {status: {capacity: {pods: many}}}}]}",
        "autoscaler.nodeGroups[0].template.status.capacity.pods: got "
        f'"many", want {QUANTITY.format(">= 0", chr(34) + "110" + chr(34))}',
    ),
]
WORDS = {
    "{name}": "lower-case letters, digits, '-' and '.', letters or digits at both ends",
    "{label}": "a label value: letters, digits, '-', '_' and '.'",
    "{address}": 'host:port such as "127.0.0.1:10297" or "[::1]:10297", port 1 to 65535',
    "{qualified}": "a qualified name such as dedicated or example.com/dedicated",
    "{group}": "name, provider, id, minSize, maxSize, enabled, maxNodesInCreation, price, scaleDown, template, kwok",
    "{width}": "a whole number >= 1 and <= 1000000",
    "{count}": "a whole number >= 0 and <= 1000000",
}


@pytest.mark.parametrize(("text", "want"), REFUSALS, ids=[text.partition("\n")[0][:60] for text, _ in REFUSALS])
def test_a_bad_value_is_refused_with_its_place(text: str, want: str) -> None:
    for short, words in WORDS.items():
        want = want.replace(short, words)
    assert messages(text) == [want]


@pytest.mark.parametrize(
    ("text", "place", "want"),
    [
        ("extender: {httpTimeout: 1500ms}", "extender.http_timeout", 1_500_000_000),
        ("autoscaler: {maxPlanningTime: 0}", "autoscaler.max_planning_time", 0),
        ('autoscaler: {maxPlanningTime: "0"}', "autoscaler.max_planning_time", 0),
        ("autoscaler: {scaleDown: {simulationTimeout: 0s}}", "autoscaler.scale_down.simulation_timeout", 0),
        ("nodes: {system: {cpu: 0.1}}", "nodes.system.cpu", 100),
        ("nodes: {system: {cpu: 2}}", "nodes.system.cpu", 2000),
        ("nodes: {system: {memory: 1536Mi}}", "nodes.system.memory", 1536 << 20),
        ("nodes: {watermark: {cpu: 1}}", "nodes.watermark.cpu", 1.0),
        ("nodes: {score: {peak: 0}}", "nodes.score.peak", 0.0),
        ("schedulerName: 'on'", "scheduler_name", "on"),
        ('listeners: {ops: {address: "[::1]:1"}}', "listeners.ops.address.host", "::1"),
        ("listeners: {ops: {address: ops.example:65535}}", "listeners.ops.address.port", 65535),
        ("listeners: {ops: {tls: null}}", "listeners.ops.tls", None),
        ("recording: {maxBytes: 1}", "recording.max_bytes", 1),
    ],
)
def test_a_good_value_becomes_this(text: str, place: str, want: object) -> None:
    value: Any = loads(HEADER + text)
    for name in place.split("."):
        value = getattr(value, name)
    assert value == want
    assert type(value) is type(want)


def test_quantities_of_a_template_are_exact() -> None:
    text = GROUP + "template: {status: {capacity: {cpu: 1500m, memory: 3Gi, nvidia.com/gpu: 2, x: 1n}}}}]}"
    (group,) = loads(HEADER + text).autoscaler.node_groups
    want = {"cpu": 15 * 10**8, "memory": 3 * 2**30 * 10**9, "nvidia.com/gpu": 2 * 10**9, "x": 1}
    assert group.template.status.capacity == want


def test_the_example_of_the_design_is_valid_and_says_the_defaults() -> None:
    text = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
schedulerName: slackwater             # written into the generated scheduler profile
featureGates: {AsyncPreemption: true, ParallelDrain: true, ResourceSlack: true}
listeners: {extender: {address: "127.0.0.1:10297"}, agents: {address: "127.0.0.1:10299"}, ops: {address: "127.0.0.1:10298"}}
extender: {weight: 1, bind: false, httpTimeout: 5s}
nodes:
  watermark: {cpu: 0.9, memory: 0.9}
  system: {cpu: "0", memory: "0"}
  score: {minUsage: 0.5, maxUsage: 0.0, peak: 0.8, randomize: false}
vertical: {missingRequests: reject, computeUnit: {vCPUs: 250m, mem: 1Gi}, maxStepUnits: 0}
migration: {enabled: true, maxConcurrent: 10, maxPerSource: 2, maxPerTarget: 2, capacityPressureWeight: 1.0}
autoscaler:
  enabled: false
  scanInterval: 10s
  maxNodesPerScaleUp: 1000
  maxNodesInCreation: 100
  maxPlanningTime: 10s
  expanders: [least-waste]
  nodeGroups: []
  scaleDown:
    {enabled: true, utilizationThreshold: 0.5, unneededTime: 10m, unreadyTime: 20m, maxScaleDownParallelism: 10,
    maxDrainParallelism: 5, simulationTimeout: 30s, delayAfterAdd: 10m, delayAfterDelete: 0s, delayAfterFailure: 3m}
  slack: {extraCapacity: {minRate: 0.0, granularity: 5, sizing: v2}}
"""
    assert loads(text) == Settings()
    group = (
        "{name: pool-a, provider: kwok, minSize: 0, maxSize: 5000, maxNodesInCreation: 100, template: "
        "{metadata: {labels: {}}, spec: {taints: []}, status: {capacity: {}, allocatable: {}}}}"
    )
    written = loads(f"{HEADER}autoscaler: {{nodeGroups: [{group}]}}")
    assert written == loads(f"{HEADER}autoscaler: {{nodeGroups: [{{name: pool-a}}]}}")


def test_defaults_beyond_the_design() -> None:
    settings = Settings()
    assert settings.recording.max_bytes == 256 << 20
    assert settings.extender.hold_timeout == 10 * SECOND
    assert settings.extender.bind_backoff == MINUTE
    assert settings.kube.max_concurrent_writes == 16
    assert settings.kube.write_deadline == 30 * SECOND


def test_a_file_has_to_say_what_it_is() -> None:
    with pytest.raises(SettingsError) as caught:
        loads("nodes: {}")
    assert [str(problem) for problem in caught.value.problems] == [
        'apiVersion: got nothing, want "config.slackwater.dev/v1alpha1"',
        'kind: got nothing, want "SlackwaterConfiguration"',
    ]


def test_a_file_of_another_kind_or_version_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        loads("apiVersion: config.slackwater.dev/v1beta1\nkind: KubeSchedulerConfiguration")
    assert [str(problem) for problem in caught.value.problems] == [
        'apiVersion: got "config.slackwater.dev/v1beta1", want "config.slackwater.dev/v1alpha1"',
        'kind: got "KubeSchedulerConfiguration", want "SlackwaterConfiguration"',
    ]


@pytest.mark.parametrize(("text", "want_seen"), [("", "nothing in it"), ("- a", "a list"), ("x", '"x"')])
def test_a_text_that_is_no_mapping_is_refused(text: str, want_seen: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.seen) == ("", want_seen)


def test_every_problem_is_reported_at_once() -> None:
    text = """
schedulerName: on
schedulerName: other
nodes: {watermark: {cpu: 1.5}, foo: 1}
listeners: {ops: {address: "127.0.0.1:10297"}}
extender: {schedulerTLS: {keyFile: k}}
autoscaler:
  expanders: [foo, random, random]
  nodeGroups:
  - {name: a, minSize: 5, maxSize: 3, bar: 1}
  - {name: a, template: {spec: {taints: [{key: x}]}}}
"""
    assert [message.partition(":")[0] for message in messages(text)] == [
        "schedulerName",
        "schedulerName",
        "nodes.watermark.cpu",
        "nodes.foo",
        "autoscaler.expanders[0]",
        "autoscaler.nodeGroups[0].bar",
        "autoscaler.nodeGroups[1].template.spec.taints[0].effect",
        "listeners.ops.address",
        "extender.schedulerTLS.certFile",
        "autoscaler.nodeGroups[1].name",
        "autoscaler.nodeGroups[0].minSize",
    ]


def test_a_file_is_read_from_its_path_and_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "slackwater.yaml"
    path.write_text(HEADER + "schedulerName: other")
    assert load(path).scheduler_name == "other"
    path.write_text(HEADER + "extender: {weight: 0}")
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: extender.weight: got 0, want a whole number >= 1 and <= 100"


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (None, "No such file or directory, want a file to read"),
        (b"a: \xff", "byte 0xff at offset 3, want UTF-8 text"),
        (b"#" * ((1 << 20) + 1), "more bytes, want at most 1048576 bytes"),
        (b"a: [", "a syntax error on line"),
    ],
    ids=["missing", "not-utf-8", "too-large", "syntax"],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, want: str) -> None:
    path = tmp_path / "slackwater.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableSettings) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: the file: got {want}")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().nodes.watermark.cpu = 0.5


def test_a_long_value_is_cut_in_the_message() -> None:
    (message,) = messages(f"vertical: {{missingRequests: {'x' * 500}}}")
    assert message == f'vertical.missingRequests: got "{"x" * 75}...", want "reject" or "zero"'


def test_json_is_read_too() -> None:
    text = yaml.safe_load(HEADER)
    assert loads(f'{{"apiVersion": "{text["apiVersion"]}",\t"kind": "{text["kind"]}"}}') == Settings()


def test_removed_keys_are_refused_with_what_replaces_them() -> None:
    for path, wanted in REMOVED.items():
        *sections, key = path.split(".")
        text = json.dumps({key: 1})
        for section in reversed(sections):
            listed = section in {"groups", "nodeGroups", "schedules"}
            text = f'{{"{section}": [{text}]}}' if listed else f'{{"{section}": {text}}}'
        assert any(message.endswith(f"got a key that was removed, want {wanted}") for message in messages(text[1:-1])), path
