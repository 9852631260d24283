"""Slack in what-if on a file: what the configuration asks for, and pods of the file that are marked. No memory, no clock.

Deliberately absent: CapacityBuffer objects and marked Deployments, which a file's reader does not know.
"""

from collections.abc import Iterable

from slackwater.app.policy import slack_policy_of
from slackwater.app.settings import Settings
from slackwater.model.buffers import NO_HEADROOM_REQUESTS
from slackwater.model.ids import UnixTime
from slackwater.model.objects import Pod
from slackwater.runtime.autoscaler.headroom import Asking, asked_by
from slackwater.runtime.autoscaler.slack_planning import SlackInquiry


def slack_inquiry(pods: Iterable[Pod], settings: Settings) -> SlackInquiry | None:
    """None where nobody asks for slack."""
    policy = slack_policy_of(settings)
    if policy is None:
        return None
    asking = asked_by(pods, NO_HEADROOM_REQUESTS) if settings.autoscaler.slack.headroom else Asking()
    if not asking.pod_headroom and not any(rule.asks for rule in policy.rules):
        return None
    return SlackInquiry(policy=policy, now=UnixTime(0.0), asking=asking)
