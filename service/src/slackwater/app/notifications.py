"""Builds what tells a webhook of alerts: it reads the metrics that the ops listener has, and sends by HTTP."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from slackwater.adapters.http.webhook import Webhook
from slackwater.app.policies import notification_policy_of
from slackwater.app.settings import Settings
from slackwater.controllers.notifications.alerts import SAMPLED
from slackwater.controllers.notifications.loop import NotificationLoop
from slackwater.controllers.notifications.metric_history import Samples
from slackwater.controllers.notifications.state import Notifications
from slackwater.ports.clock import Clock
from slackwater_protocol.durations import seconds


def notification_loop(
    settings: Settings, registry: CollectorRegistry, *, leads: Callable[[], bool], clock: Clock
) -> NotificationLoop | None:
    """The loop; None if no webhook is configured. The registry has no metrics of single nodes, so reading it is quick."""
    if (webhook := settings.notifications.webhook) is None:
        return None
    hosts = frozenset(host.lower() for host in webhook.allowed_hosts)
    receiver = Webhook(url_file=webhook.url_file, hosts=hosts, seconds=seconds(webhook.timeout))
    state = Notifications(notification_policy_of(settings))
    return NotificationLoop(state, lambda: samples(registry), receiver.send, leads=leads, clock=clock)


def samples(registry: CollectorRegistry) -> Samples:
    """The present values of the metrics that alerts read."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name in SAMPLED
    }
