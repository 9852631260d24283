"""The what-if question that is sent to the planning process, which answers it on the replica.

`autoscaler.maxPlanningTime` bounds the time of a plan.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from slackwater.app.offline.cluster import Cluster, with_profiles
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.policies import policy_of
from slackwater.app.scheduler_config.filtering import filter_profiles_of
from slackwater.app.settings import Settings, SettingsError
from slackwater.app.whatif.replica_cluster import GroupRegistryView, cluster_of
from slackwater.app.whatif.suppose import configured, regrouped, suppose
from slackwater.model.ids import Instant
from slackwater.model.json_answer import JsonAnswer
from slackwater.model.objects import Pod
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused
from slackwater.snapshot.snapshot_replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """A what-if question. `objects` are the supposed objects, each as JSON text, since there may be many. `supposed` has the
    other changes. `ended` are the pods that have ended and that `supposed` removes."""

    question: Question
    supposed: Supposed
    objects: Sequence[bytes]
    ended: Sequence[Pod]
    settings: Settings
    group_registry: GroupRegistryView | None
    now: Instant

    def answer(self, replica: SnapshotReplica) -> bytes:
        """The lines that `slackwater simulate` prints, the same as for a cluster from a file. Raises `WhatIfRefused`."""
        supposed = self.supposed
        try:
            settings = configured(self.settings, supposed.configuration)
            accounting = supposed.accounting
            cluster = cluster_of(replica, self.group_registry, self.now, accounting=accounting, ended=self.ended)
            cluster = regrouped(cluster, self.settings, settings)
            objects = [msgspec.json.decode(each) for each in self.objects]
            cluster = suppose(cluster, objects=objects, remove=supposed.remove)
            cluster = with_profiles(cluster, filter_profiles_of(settings))
            lines = _ANSWERS[self.question](cluster, settings, supposed)
            return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        except (SettingsError, ClusterError) as error:
            raise WhatIfRefused(str(error)) from error


def _placement(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[JsonAnswer]:
    policy = policy_of(settings)
    return placement_lines(
        cluster,
        sequential=supposed.sequential,
        accounting=supposed.accounting,
        policy=policy.nodes,
        missing_requests=policy.missing_requests,
    )


def _scale_up(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[JsonAnswer]:
    yield scale_up_answer(cluster, settings, accounting=supposed.accounting)


def _scale_down(cluster: Cluster, settings: Settings, supposed: Supposed) -> Iterable[JsonAnswer]:
    yield scale_down_answer(cluster, settings, accounting=supposed.accounting)


_ANSWERS: Final[Mapping[Question, Callable[[Cluster, Settings, Supposed], Iterable[JsonAnswer]]]] = {
    "placement": _placement,
    "scale-up": _scale_up,
    "scale-down": _scale_down,
}
