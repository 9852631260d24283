"""Which changed keys take effect at once: every key is decided on, and only live ones are taken over."""

from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.app.settings import Settings, live, loads
from slackwater.app.settings.reload import NEEDS, needs
from slackwater.configuration.problems import Steps
from slackwater.configuration.values import Section
from tests.support.configuration import HEADER


def keys(section: Section, at: Steps = ()) -> Iterator[Steps]:
    for name, field in type(section).model_fields.items():
        value: Any = getattr(section, name)
        steps = (*at, field.alias or name)
        if isinstance(value, Section):
            yield from keys(value, steps)
        else:
            yield steps


def test_every_key_is_decided_on() -> None:
    for steps in keys(Settings()):
        assert needs(steps) in ("live", "restart", "scheduler")


def test_every_decision_is_about_a_key_that_exists() -> None:
    known = {steps[:length] for steps in keys(Settings()) for length in range(1, len(steps) + 1)}
    assert set(NEEDS) <= known


def test_a_key_without_a_decision_is_an_error() -> None:
    with pytest.raises(KeyError):
        needs(("extender", "somethingNew"))


def test_nothing_changed() -> None:
    change = live(Settings(), Settings())
    assert (change.live, change.restart, change.scheduler) == ((), (), ())
    assert change.settings == Settings()


@pytest.mark.parametrize(
    ("text", "want_path"),
    [
        ("nodes: {watermark: {cpu: 0.5}}", "nodes.watermark.cpu"),
        ("nodes: {system: {memory: 1Gi}}", "nodes.system.memory"),
        ("nodes: {score: {randomize: true}}", "nodes.score.randomize"),
        ("vertical: {missingRequests: zero}", "vertical.missingRequests"),
        ("migration: {maxConcurrent: 3}", "migration.maxConcurrent"),
        ("extender: {holdTimeout: 20s}", "extender.holdTimeout"),
        ("extender: {bindBackoff: 20s}", "extender.bindBackoff"),
    ],
)
def test_a_limit_takes_effect_at_once(text: str, want_path: str) -> None:
    new = loads(HEADER + text)
    change = live(Settings(), new)
    assert (change.live, change.restart) == ((want_path,), ())
    assert change.settings == new


@pytest.mark.parametrize(
    ("text", "want_path", "want_scheduler"),
    [
        ("schedulerName: other", "schedulerName", True),
        ('listeners: {extender: {address: "127.0.0.1:1"}}', "listeners.extender.address", True),
        ('listeners: {ops: {address: "127.0.0.1:1"}}', "listeners.ops.address", False),
        ("listeners: {ops: {tls: {certFile: a, keyFile: b}}}", "listeners.ops.tls", False),
        ("extender: {bind: true}", "extender.bind", True),
        ("extender: {weight: 2}", "extender.weight", True),
        ("extender: {httpTimeout: 2s}", "extender.httpTimeout", True),
        ("extender: {schedulerTLS: {caFile: x}}", "extender.schedulerTLS.caFile", True),
        ("kube: {maxConcurrentWrites: 7}", "kube.maxConcurrentWrites", False),
        ("featureGates: {ParallelDrain: false}", "featureGates.ParallelDrain", False),
        ("extender: {percentageOfNodesToScore: 2}", "extender.percentageOfNodesToScore", True),
        ("autoscaler: {nodeGroups: [{name: a}]}", "autoscaler.nodeGroups", False),
    ],
)
def test_what_is_read_once_waits_for_a_restart(text: str, want_path: str, want_scheduler: bool) -> None:
    change = live(Settings(), loads(HEADER + text))
    assert (change.live, change.restart) == ((), (want_path,))
    assert change.scheduler == ((want_path,) if want_scheduler else ())
    assert change.settings == Settings()


def test_a_mixed_change_is_split() -> None:
    new = loads(HEADER + "schedulerName: other\nnodes: {watermark: {cpu: 0.5}, score: {peak: 0.7}}")
    change = live(Settings(), new)
    assert change.live == ("nodes.watermark.cpu", "nodes.score.peak")
    assert change.restart == ("schedulerName",)
    assert change.settings == Settings(nodes=new.nodes)
