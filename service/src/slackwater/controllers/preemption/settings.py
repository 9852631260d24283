"""The `preemption` section of the configuration file: preemption where only our accounting leaves no room."""

from pydantic import Field

from slackwater.configuration.values import Delay, Section, Timeout
from slackwater_protocol.durations import MINUTE, Duration


class Preemption(Section):
    """Preemption on nodes that are full only in Slackwater's accounting; kube-scheduler's own preemption sees room there. The
    gate `AsyncPreemption` switches it off."""

    timeout: Timeout = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration that the victims of one pod may take to terminate. The longest of their grace periods and a minute (`timeout`,
    if it is shorter than a minute) are waited for in any case. 5m by default: longer than most grace periods. After it the pod
    is tried again, and a victim that has not terminated is not chosen again for ten minutes."""
    delay: Delay = Field(default=Duration(0), examples=["0s", "1m"])
    """Duration for which a pod is refused before pods are deleted for it. 0s by default: at once. A longer duration suits
    clusters in which nodes are added automatically."""
