"""What a valid file asks for that will not happen is said, and never silently accepted."""

import pytest

from slackwater.app.settings import Settings, loads, notes, unsupported
from tests.support.configuration import HEADER


def test_the_defaults_need_no_note() -> None:
    assert notes(Settings()) == []
    assert unsupported(Settings()) == ()


def test_an_autoscaler_without_anything_that_could_grow_is_refused() -> None:
    settings = loads(HEADER + "autoscaler: {enabled: true}")
    want = "autoscaler.nodeGroups: got none, want a group or a provider: with none of them no node can be added"
    assert [str(problem) for problem in unsupported(settings)] == [want]
    assert notes(settings) == [f"{want}; serve refuses to start with this"]


NOTES = {
    "preemption-gate": (
        "featureGates: {AsyncPreemption: false}\npreemption: {delay: 1m}",
        "preemption: has no effect while featureGates.AsyncPreemption is false: no pod is deleted",
    ),
    "autoscaler": ("autoscaler: {scanInterval: 5s}", "autoscaler: has no effect while autoscaler.enabled is false"),
    "slack": (
        "featureGates: {ResourceSlack: false}\n"
        "autoscaler: {enabled: true, nodeGroups: [{name: a}], slack: {extraCapacity: {minRate: 0.1}}}",
        "autoscaler.slack: has no effect while featureGates.ResourceSlack is false",
    ),
    "percentage": (
        "extender: {bind: true, percentageOfNodesToScore: 2}",
        "extender.percentageOfNodesToScore: has no effect while extender.bind is true",
    ),
    "hold": (
        "extender: {bind: true, httpTimeout: 11s}",
        "extender.holdTimeout: 10s is shorter than extender.httpTimeout (11s): ",
    ),
    "scheduler-tls": (
        "extender: {schedulerTLS: {caFile: x}}",
        "extender.schedulerTLS: has no effect while listeners.extender.tls is not set",
    ),
    "client-certificate": (
        "listeners: {extender: {tls: {certFile: c, keyFile: k, clientCAFile: a}}}",
        "extender.schedulerTLS.certFile: not set, yet listeners.extender.tls.clientCAFile asks kube-scheduler for a ",
    ),
    "open-listener": (
        'listeners: {extender: {address: "0.0.0.0:10297"}}',
        "listeners.extender.address: 0.0.0.0:10297 is not on loopback and asks for no client certificate: ",
    ),
}


@pytest.mark.parametrize(("text", "want_start"), NOTES.values(), ids=NOTES)
def test_a_key_without_the_effect_it_asks_for_is_noted(text: str, want_start: str) -> None:
    (note,) = notes(loads(HEADER + text))
    assert note.startswith(want_start)


@pytest.mark.parametrize(
    ("text", "want_start"),
    [
        (
            "autoscaler: {enabled: true, nodeGroups: [{name: a}], scaleDown: {maxScaleDownParallelism: 3}}",
            "autoscaler.scaleDown.maxDrainParallelism: 5 is more than maxScaleDownParallelism (3)",
        ),
        ("migration: {maxConcurrent: 1, maxPerTarget: 1}", "migration.maxPerSource: 2 is more than maxConcurrent (1)"),
        ("migration: {maxConcurrent: 1, maxPerSource: 1}", "migration.maxPerTarget: 2 is more than maxConcurrent (1)"),
    ],
)
def test_a_limit_that_another_limit_hides_is_noted(text: str, want_start: str) -> None:
    (note,) = notes(loads(HEADER + text))
    assert note.startswith(want_start)
