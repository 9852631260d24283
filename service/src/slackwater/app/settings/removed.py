"""The keys that the configuration file once had, each with what replaces it. A file with one of them is refused."""

from typing import Final

#: By the key's path without positions in lists. docs/adr/0258 has the reasons.
REMOVED: Final = {
    "autoscaler.planTimeout": "no such key: a plan is abandoned after 5m",
    "autoscaler.scaleDown.evictionMemory": "no such key: an evicted pod is remembered for 1m",
    "autoscaler.scaleDown.maxEmptyBulkDelete": "maxScaleDownParallelism",
    "autoscaler.scaleDown.minEvaluatedNodes": "no such key: each plan tries at least 10 nodes",
    "autoscaler.scaleDown.overlapDrains": "no such key: drains overlap, up to autoscaler.scaleDown.maxDrainParallelism",
    "autoscaler.scaleUp.gpuSettleTime": "no such key: pods with a GPU wait 30s, others autoscaler.scaleUp.settleTime",
    "autoscaler.scaleUp.untriedPodDelay": "no such key: a pod counts untried once it is 5s old",
    "autoscaler.slack.groups.extraCapacity.granularity": "autoscaler.slack.extraCapacity.granularity, for all slack",
    "autoscaler.slack.groups.extraCapacity.sizing": "autoscaler.slack.extraCapacity.sizing, for all slack",
    "autoscaler.slack.nodeStartTime": "no such key: 2m, until a start was observed",
    "autoscaler.slack.schedules.extraCapacity.granularity": "autoscaler.slack.extraCapacity.granularity, for all slack",
    "autoscaler.slack.schedules.extraCapacity.sizing": "autoscaler.slack.extraCapacity.sizing, for all slack",
    "featureGates.Steering": "extender.bind alone: false names the best node in filter, true leaves the choice to "
    "kube-scheduler",
    "kube.listPageSize": "no such key: a page of a list has 500 objects",
    "kube.maxConcurrentBinds": "no such key: 64 binds are in flight at most",
    "kube.maxConcurrentPreemptionWrites": "no such key: 64 writes of preemptions are in flight at most",
    "listeners.agents.maxRequests": "no such key: 16384 requests are in flight at most",
    "migration.capacityPressureTime": "no such key: denied growth counts at once",
    "preemption.enabled": "featureGates.AsyncPreemption",
    "preemption.maxConcurrent": "no such key: 1000 preemptions are under way at most",
    "recording.keep": "no such key: the record of the earlier start is kept",
    "steering": "extender.percentageOfNodesToScore for steering.percentageOfNodesToScore, and nothing for its other keys: no "
    "pod is nominated in advance any more",
}
