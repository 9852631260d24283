"""The policies of a service whose configuration file sets nothing: what people install. Tests change single fields with
`dataclasses.replace`."""

from typing import Final

from slackwater.app.policies import (
    audit_config_of,
    consolidation_policy_of,
    dispatcher_config_of,
    policy_of,
    scale_down_policy_of,
    scale_up_policy_of,
    slack_policy_of,
)
from slackwater.app.settings import Settings
from slackwater.controllers.slack.policy import SlackPolicy

SETTINGS: Final = Settings()


def _slack() -> SlackPolicy:
    found = slack_policy_of(SETTINGS)
    assert found is not None
    return found


POLICY: Final = policy_of(SETTINGS)
NODES: Final = POLICY.nodes
SCORE: Final = POLICY.score
VERTICAL: Final = POLICY.vertical
MIGRATION: Final = POLICY.migration
PREEMPTION: Final = POLICY.preemption
BLOCKED_BY: Final = POLICY.blocked_by
DRAIN: Final = POLICY.drain
SCALE_UP: Final = scale_up_policy_of(SETTINGS)
PENDING: Final = SCALE_UP.pending
CONSOLIDATION: Final = consolidation_policy_of(SETTINGS)
SCALE_DOWN: Final = scale_down_policy_of(SETTINGS)
MINIMUM: Final = SCALE_DOWN.minimum
SLACK: Final = _slack()
SLACK_RULE: Final = SLACK.rules[0]
HEADROOM: Final = SLACK.headroom_limits
DISPATCHER: Final = dispatcher_config_of(SETTINGS)
AUDIT: Final = audit_config_of(SETTINGS)
