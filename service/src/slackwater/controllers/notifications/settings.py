"""The `notifications` section of the configuration file: a webhook that receives messages about alerts."""

from pydantic import Field

from slackwater.configuration.values import CallTimeout, FilePath, GroupName, Section, ServerName, Switch, WindowTime
from slackwater_protocol.durations import MINUTE, SECOND, Duration


class Webhook(Section):
    """The receiver: whatever takes `{"text": ...}` by POST, as Slack, Mattermost and Rocket.Chat do."""

    url_file: FilePath = Field(examples=["/etc/slackwater/webhook/url"])
    """Path of the file with the address, which is a secret: a Secret that is mounted into the Pod. It is read for each
    message, so a new one takes effect at once. The address begins with https://, or with http:// on this host."""
    allowed_hosts: tuple[ServerName, ...] = Field(examples=[["hooks.slack.com"]])
    """The hosts that the address may have. With another one nothing is sent."""
    timeout: CallTimeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """How long a message may take. 10s by default. Redirects are not followed."""


class Notifications(Section):
    """What the leader tells a webhook: alerts that begin and end, as `docs/operations.md` lists them."""

    webhook: Webhook | None = None
    """The receiver of messages about alerts. Unset by default: none are sent."""
    interval: WindowTime = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """The shortest duration between two messages; one message has all that began or ended in between. 5m by default."""
    names: Switch = False
    """Whether messages name node groups. false by default. Messages never have anything else of an object in them."""
    cluster: GroupName | None = Field(default=None, examples=["prod-eu"])
    """The name of the cluster in messages. Unset by default."""
