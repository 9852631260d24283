"""Finds what a valid configuration asks for and will not get.

In: valid settings. Out: problems with which `serve` refuses to start, and notes of `config check` on keys that have no effect
because of another key. Invalid values and conflicts are errors of the file; they are found before.
"""

from collections.abc import Iterator

from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.app.settings.model import Settings
from slackwater.app.settings.problems import Problem
from slackwater.app.settings.providers import Providers
from slackwater.app.settings.scaledown import ScaleDown
from slackwater.app.settings.serving import SchedulerTLS
from slackwater.app.settings.slack import Slack
from slackwater.app.settings.steering import Steering
from slackwater_protocol.durations import format_duration


def unsupported(settings: Settings) -> tuple[Problem, ...]:
    """Problems with which `serve` refuses to start, because the cluster would rely on something that cannot happen."""
    autoscaler = settings.autoscaler
    if autoscaler.enabled and not autoscaler.node_groups and autoscaler.providers == Providers():
        wanted = "a group or a provider: with none of them no node can be added"
        return (Problem(path="autoscaler.nodeGroups", seen="none", wanted=wanted),)
    return ()


def notes(settings: Settings) -> list[str]:
    """One sentence for each setting of a file that has no effect; empty for the defaults."""
    return [
        *(f"{problem}; serve refuses to start with this" for problem in unsupported(settings)),
        *_ineffective(settings),
    ]


def _ineffective(settings: Settings) -> Iterator[str]:
    if "autoscaler" in settings.model_fields_set and not settings.autoscaler.enabled and settings.autoscaler != Autoscaler():
        yield "autoscaler: has no effect while autoscaler.enabled is false: no node is added"
    if settings.autoscaler.slack != Slack() and not settings.feature_gates.resource_slack:
        yield "autoscaler.slack: has no effect while featureGates.ResourceSlack is false: no spare room is planned"
    if settings.steering != Steering() and not settings.steers:
        why = "is false" if settings.feature_gates.steering is False else "is not set and extender.bind is true"
        yield f"steering: has no effect while featureGates.Steering {why}: no pod is nominated in advance"
    extender, migration = settings.extender, settings.migration
    if "async_preemption" in settings.feature_gates.model_fields_set and not settings.preemption.enabled:
        yield "featureGates.AsyncPreemption: has no effect while preemption.enabled is false"
    if "hold_timeout" in extender.model_fields_set and not extender.bind:
        yield (
            "extender.holdTimeout: has no effect while extender.bind is false: room is kept until the watch shows the bind, "
            "or none can come any more"
        )
    elif extender.bind and extender.hold_timeout < extender.http_timeout:
        yield (
            f"extender.holdTimeout: {format_duration(extender.hold_timeout)} is shorter than extender.httpTimeout "
            f"({format_duration(extender.http_timeout)}): room promised to a pod may go to another one while "
            "kube-scheduler still waits for its bind"
        )
    yield from _scale_down_notes(settings.autoscaler.scale_down)
    for key, value in (("maxPerSource", migration.max_per_source), ("maxPerTarget", migration.max_per_target)):
        if value > migration.max_concurrent:
            yield f"migration.{key}: {value} is more than maxConcurrent ({migration.max_concurrent}), which limits it"
    yield from _listener_notes(settings)


def _scale_down_notes(scale_down: ScaleDown) -> Iterator[str]:
    old, new = scale_down.max_empty_bulk_delete, scale_down.max_scale_down_parallelism
    if old is not None:
        instead = f"maxScaleDownParallelism ({new}) counts" if scale_down.parallelism != old else "want maxScaleDownParallelism"
        yield f"autoscaler.scaleDown.maxEmptyBulkDelete: is deprecated: {instead}"
    if scale_down.max_drain_parallelism > scale_down.parallelism:
        yield (
            f"autoscaler.scaleDown.maxDrainParallelism: {scale_down.max_drain_parallelism} is more than "
            f"maxScaleDownParallelism ({scale_down.parallelism}), which limits drains too"
        )


def _listener_notes(settings: Settings) -> Iterator[str]:
    extender, listeners = settings.extender, settings.listeners
    tls = listeners.extender.tls
    if tls is None and extender.scheduler_tls != SchedulerTLS():
        yield "extender.schedulerTLS: has no effect while listeners.extender.tls is not set"
    if tls is not None and tls.client_ca_file is not None and extender.scheduler_tls.cert_file is None:
        yield (
            "extender.schedulerTLS.certFile: not set, yet listeners.extender.tls.clientCAFile asks kube-scheduler "
            "for a client certificate: scheduler-config cannot write its file"
        )
    if not listeners.extender.address.is_loopback and (tls is None or tls.client_ca_file is None):
        yield (
            f"listeners.extender.address: {listeners.extender.address} is not on loopback and asks for no client "
            "certificate: anyone who can reach it can bind pods"
        )
