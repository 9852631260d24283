"""The back-off of a node group after failures. It is exponential, as in Cluster Autoscaler; success does not end it."""

from dataclasses import dataclass

from slackwater.cluster.nodegroups.policy import BackoffPolicy
from slackwater.model.ids import Instant

#: The same limit as in Cluster Autoscaler's status.
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupBackoff:
    """A group is not grown before `until`. `code` is the provider's word for the failure, or ours: timeout, no-answer."""

    until: Instant
    seconds: float
    failed_at: Instant
    code: str
    message: str

    def holds(self, now: Instant) -> bool:
        return now < self.until


def after_failure(
    before: NodeGroupBackoff | None, policy: BackoffPolicy, *, code: str, message: str, now: Instant
) -> NodeGroupBackoff:
    """The back-off that follows. A failure while one holds prolongs it; one after it doubles it, up to the longest."""
    seconds = policy.first_seconds
    if before is not None and now - before.failed_at <= policy.forget_seconds:
        seconds = before.seconds if before.holds(now) else min(2 * before.seconds, policy.longest_seconds)
    return NodeGroupBackoff(until=Instant(now + seconds), seconds=seconds, failed_at=now, code=code, message=_short(message))


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 14] + " ... <truncated>"[-14:]
