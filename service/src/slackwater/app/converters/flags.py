"""The flags of Cluster Autoscaler: for each its default, and the setting that takes its place, or why there is none.

The converter, the guide's table and the tests read this one list. Names and defaults are those of its source
pkg/config/flags/flags.go; a test compares them with a list of that file. Flags that were removed there, and those of its
libraries, follow.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["bool", "int", "float", "duration", "seconds", "text", "list", "names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag. `kind`: how its value is written; a `list` is repeated, `names` have commas. `key`: the setting; "" if there is
    none. `why`: why there is none, or what is to be known. `fixed`: the value that Slackwater behaves like, whatever the flag
    says. `current`: it is in today's source."""

    name: str
    kind: Kind
    default: str
    key: str = ""
    why: str = ""
    fixed: str | None = None
    current: bool = True


def _f(name: str, kind: Kind, default: str, key: str = "", why: str = "", *, fixed: str | None = None) -> Flag:
    return Flag(name=name, kind=kind, default=default, key=f"autoscaler.{key}" if key else "", why=why, fixed=fixed)


def _older(name: str, kind: Kind, default: str, key: str = "", why: str = "") -> Flag:
    return Flag(name=name, kind=kind, default=default, key=f"autoscaler.{key}" if key else "", why=why, current=False)


_CLOUD: Final = "of one cloud's provider, which is not part of Slackwater"
_REQUESTS: Final = "ProvisioningRequests are not read"
_EQUAL: Final = "equal pods are judged at once"
_ALWAYS: Final = "always"
_CANDIDATES: Final = "every node is a candidate; Cluster Autoscaler no longer reads this flag"
_HEALTH: Final = "`/livez` says whether the process lives; an alert reports a loop that does not end"
_CLIENT: Final = "the client of the API server is tuned by `kube.maxConcurrentWrites` alone"
_SIMILAR: Final = "the rules of similar groups are fixed"
_PLAN: Final = "one plan for all pending pods; providers are called in parallel"
_LOGS: Final = "a flag of the log"
_ELECTION: Final = "Slackwater leads while the scheduler's Lease names its Pod, or by the keys of `leaderElection`"
_STARTUP: Final = "in addition to Slackwater's default, which includes Cluster Autoscaler's prefixes"
_SERVE: Final = "an argument of `slackwater serve`"
_GROUPS: Final = "groups are never created"
_SETTLE: Final = (
    "`autoscaler.scaleUp.settleTime` waits for pods that controllers are about to create, and invents none; pods with a GPU: "
    "always 30 s"
)
_UNREADY: Final = "fixed: removals stop when more than 45 % and more than 3 nodes are unready; scale-up goes on"
_LONGER: Final = "one duration for both: the longer of those given"
_FAILED: Final = "a group at its minimum grows before its failed nodes are deleted"

FLAGS: Final = (
    _f("scan-interval", "duration", "10s", "scanInterval"),
    _f("expander", "text", "least-waste", "expanders", "a list, applied one after another; `grpc` has no counterpart"),
    _f("grpc-expander-url", "text", "", why="Slackwater could not check another process's decision again before acting on it"),
    _f("grpc-expander-cert", "text", "", why="Slackwater could not check another process's decision again before acting on it"),
    _f("cloud-provider", "text", "gce", "providers", "`aws`, `clusterapi`, `externalgrpc`, `kwok`; others have none"),
    _f("nodes", "list", "", "nodeGroups", "sizes and names; Cluster API's groups are found by their annotations"),
    _f("node-group-auto-discovery", "list", "", "providers.clusterapi",
       "of Cluster API; `asg:tag=...` becomes `providers.aws.tags`; an external server finds its own groups"),
    _f("cloud-config", "text", "", "providers.clusterapi.kubeconfig",
       "with `externalgrpc` the address in it, if a ConfigMap has it"),
    _f("kubeconfig", "text", "", why=_SERVE),
    _f("kubernetes", "text", "", why=_SERVE),
    _f("clusterapi-cloud-config-authoritative", "bool", "false",
       why="without a kubeconfig Cluster API is in the served cluster"),
    _f("address", "text", ":8085", why="metrics and state are at `listeners.ops.address`, which the chart sets"),
    _f("namespace", "text", "kube-system",
       why="the objects that Slackwater reads and writes are in kube-system", fixed="kube-system"),
    _f("cluster-name", "text", "", why="in no message of Slackwater"),
    _f("regional", "bool", "false", why=_CLOUD),
    _f("status-config-map-name", "text", "cluster-autoscaler-status", "statusConfigMap",
       "another default, so that both can run"),
    _f("write-status-configmap", "bool", "true", why=_ALWAYS, fixed="true"),
    _f("enforce-node-group-min-size", "bool", "false", why="always: `minSize` is kept", fixed="true"),
    _f("max-nodes-total", "int", "0", "scaleUp.limits", "as `nodes`"),
    _f("cores-total", "text", "0:320000", "scaleUp.limits", "as `cpu`; the minimum in `autoscaler.scaleDown.minimum`"),
    _f("memory-total", "text", "0:6400000", "scaleUp.limits",
       "as `memory` in Gi; the minimum in `autoscaler.scaleDown.minimum`"),
    _f("gpu-total", "list", "", "scaleUp.quotas", "by the label of GKE's accelerators; a minimum has no counterpart"),
    _f("capacity-quotas-enabled", "bool", "false", why="`autoscaler.scaleUp.quotas` has limits by node labels", fixed="false"),
    _f("max-nodes-per-scaleup", "int", "1000", "maxNodesPerScaleUp", "of one loop; Cluster Autoscaler's is of one estimate"),
    _f("max-nodegroup-binpacking-duration", "duration", "10s", "maxPlanningTime", "for one group's estimate"),
    _f("max-binpacking-time", "duration", "5m0s", why="six times `autoscaler.maxPlanningTime` for a whole plan"),
    _f("estimator", "text", "binpacking", why=_ALWAYS, fixed="binpacking"),
    _f("balance-similar-node-groups", "bool", "false", "scaleUp.balanceSimilarGroups"),
    _f("balancing-ignore-label", "list", "", "scaleUp.balancingIgnoredLabels", "few labels are compared: operating system, "
       "architecture, instance type, accelerator, capacity type"),
    _f("balancing-label", "list", "", why=_SIMILAR),
    _f("memory-difference-ratio", "float", "0.015", why=_SIMILAR),
    _f("max-free-difference-ratio", "float", "0.05", why=_SIMILAR),
    _f("max-allocatable-difference-ratio", "float", "0.05", why=_SIMILAR),
    _f("expendable-pods-priority-cutoff", "int", "-10", "scaleUp.expendablePodsPriorityCutoff"),
    _f("new-pod-scale-up-delay", "duration", "0s", "scaleUp.newPodDelay"),
    _f("bypassed-scheduler-names", "names", "", "scaleUp.bypassedSchedulerNames",
       "by Slackwater's default its own pods count before kube-scheduler has tried them"),
    _f("allowed-scheduler-names", "names", "", why="pods of all schedulers count", fixed=""),
    _f("scheduler-config-file", "text", "", why="`extender.schedulerConfig` names kube-scheduler's file"),
    _f("pending-pods-batching-timeout", "duration", "4m0s", why="limits of a plan count steps"),
    _f("enable-graceful-degradation", "bool", "false",

       why="a provider that does not answer stops only its own groups; plans have limits of their own"),
    _f("pod-injection-limit", "int", "5000", why=_SETTLE),
    _f("enable-proactive-scaleup", "bool", "false", why=_SETTLE),
    _f("scale-up-from-zero", "bool", "true", why="always: a group without nodes is judged by its template", fixed="true"),
    _f("scale-from-unschedulable", "bool", "false", why="always: a template is not cordoned", fixed="true"),
    _f("parallel-scale-up", "bool", "false", why=_PLAN, fixed="true"),
    _f("salvo-scale-up", "bool", "false", why=_PLAN, fixed="true"),
    _f("salvo-scale-up-budget", "duration", "1m0s", why=_PLAN),
    _f("scaleup-simulation-for-skipped-node-groups-enabled", "bool", "false", why="`slackwater explain` answers that"),
    _f("fastpath-binpacking-enabled", "bool", "false", why=_EQUAL),
    _f("predicate-parallelism", "int", "4", why=_EQUAL),
    _f("enable-inter-pod-affinity-hostname-fast-path", "bool", "false", why=_EQUAL),
    _f("cluster-snapshot-parallelism", "int", "16",
       why="there is no snapshot to build; Cluster Autoscaler no longer reads this flag"),
    _f("frequent-loops-enabled", "bool", "true", why="always: a loop runs early when pods or nodes require it", fixed="true"),
    _f("async-node-groups", "bool", "false", why=_GROUPS, fixed="false"),
    _f("force-ds", "bool", "false", why="a template counts what a node's DaemonSets would need", fixed="true"),
    _f("node-info-cache-expire-time", "duration", "87600h0m0s", why="templates come from the last purchase, for a day"),
    _f("startup-taint", "list", "", "scaleUp.startupTaints", _STARTUP),
    _f("startup-taint-prefix", "list", "", "scaleUp.startupTaints", _STARTUP),
    _f("ignore-taint", "list", "", "scaleUp.startupTaints", _STARTUP),
    _f("status-taint", "list", "", "scaleUp.statusTaints", _STARTUP),
    _f("max-node-provision-time", "duration", "15m0s", "creation.timeout", _LONGER),
    _f("max-node-startup-time", "duration", "15m0s", "creation.timeout", _LONGER),
    _f("initial-node-group-backoff-duration", "duration", "5m0s", "creation.backoff.initial"),
    _f("max-node-group-backoff-duration", "duration", "30m0s", "creation.backoff.max"),
    _f("node-group-backoff-reset-timeout", "duration", "3h0m0s", "creation.backoff.reset"),
    _f("ok-total-unready-count", "int", "3", why=_UNREADY, fixed="3"),
    _f("max-total-unready-percentage", "float", "45", why=_UNREADY, fixed="45"),
    _f("force-delete-failed-nodes", "bool", "false", why=_FAILED),
    _f("force-delete-unregistered-nodes", "bool", "false", why=_FAILED),
    _f("enable-dynamic-resource-allocation", "bool", "true", why="always: claims and devices are judged", fixed="true"),
    _f("enable-csi-node-aware-scheduling", "bool", "false", why="always: CSINodes limit volumes", fixed="true"),
    _f("scale-down-enabled", "bool", "true", "scaleDown.enabled"),
    _f("scale-down-unneeded-time", "duration", "10m0s", "scaleDown.unneededTime", "for one group in `autoscaler.nodeGroups`"),
    _f("scale-down-unready-time", "duration", "20m0s", "scaleDown.unreadyTime", "for one group in `autoscaler.nodeGroups`"),
    _f("scale-down-unready-enabled", "bool", "true", "scaleDown.unreadyEnabled"),
    _f("scale-down-utilization-threshold", "float", "0.5", "scaleDown.utilizationThreshold"),
    _f("scale-down-gpu-utilization-threshold", "float", "0.5", "scaleDown.gpuUtilizationThreshold"),
    _f("ignore-daemonsets-utilization", "bool", "false", "scaleDown.ignoreDaemonSetsUtilization"),
    _f("ignore-mirror-pods-utilization", "bool", "false", why="mirror pods count", fixed="false"),
    _f("scale-down-delay-after-add", "duration", "10m0s", "scaleDown.delayAfterAdd"),
    _f("scale-down-delay-after-delete", "duration", "0s", "scaleDown.delayAfterDelete"),
    _f("scale-down-delay-after-failure", "duration", "3m0s", "scaleDown.delayAfterFailure"),
    _f("scale-down-delay-type-local", "bool", "false", why="always: each group has its own delays", fixed="true"),
    _f("scale-down-simulation-timeout", "duration", "30s", "scaleDown.simulationTimeout"),
    _f("scale-down-non-empty-candidates-count", "int", "30", why=_CANDIDATES),
    _f("scale-down-candidates-pool-ratio", "float", "0.1", why=_CANDIDATES),
    _f("scale-down-candidates-pool-min-count", "int", "50", why=_CANDIDATES),
    _f("max-scale-down-parallelism", "int", "10", "scaleDown.maxScaleDownParallelism"),
    _f("max-drain-parallelism", "int", "1", "scaleDown.maxDrainParallelism"),
    _f("unremovable-node-recheck-timeout", "duration", "5m0s", "scaleDown.unremovableRecheckTime"),
    _f("max-bulk-soft-taint-count", "int", "10", "scaleDown.maxSoftTaints"),
    _f("max-bulk-soft-taint-time", "duration", "3s", why="taints are written beside the loop"),
    _f("node-deletion-candidate-ttl", "duration", "0s", why="a candidate's time is in its taint and survives restarts"),
    _f("max-graceful-termination-sec", "seconds", "600", "scaleDown.drain.maxGracefulTermination"),
    _f("max-pod-eviction-time", "duration", "2m0s", "scaleDown.drain.evictionTimeout"),
    _f("drain-priority-config", "text", "", "scaleDown.drain.priorityGroups"),
    _f("daemonset-eviction-for-occupied-nodes", "bool", "true", "scaleDown.drain.evictDaemonSets"),
    _f("daemonset-eviction-for-empty-nodes", "bool", "false", why="they end with their node", fixed="false"),
    _f("cordon-node-before-terminating", "bool", "true", "scaleDown.drain.cordon"),
    _f("node-delete-delay-after-taint", "duration", "5s", "scaleDown.drain.settleTime", "the pods are judged again after it"),
    _f("dynamic-node-delete-delay-after-taint-enabled", "bool", "false", why="`autoscaler.scaleDown.drain.settleTime` is fixed",
       fixed="false"),
    _f("node-deletion-delay-timeout", "duration", "2m0s", "scaleDown.drain.delayDeletionTimeout"),
    _f("node-deletion-batcher-interval", "duration", "0s",

       why="machines of a group that are ready for deletion are deleted in one call"),
    _f("skip-nodes-with-system-pods", "bool", "true", "scaleDown.blockedBy.systemPods"),
    _f("blocking-system-pod-distruption-timeout", "duration", "1h0m0s", "scaleDown.blockedBy.systemPodTime"),
    _f("skip-nodes-with-local-storage", "bool", "true", "scaleDown.blockedBy.localStorage"),
    _f("skip-nodes-with-custom-controller-pods", "bool", "true", "scaleDown.blockedBy.customControllers"),
    _f("min-replica-count", "int", "0", "scaleDown.blockedBy.minReplicas"),
    _f("capacity-buffer-pod-injection-enabled", "bool", "false", "slack.headroom", "CapacityBuffer objects are read"),
    _f("capacity-buffer-controller-enabled", "bool", "false", why="`autoscaler.slack.headroom` does both"),
    _f("capacity-buffer-pod-dry-run-enabled", "bool", "true", why="placeholders exist only in plans"),
    _f("enable-provisioning-requests", "bool", "false", why=_REQUESTS, fixed="false"),
    _f("provisioning-request-initial-backoff-time", "duration", "1m0s", why=_REQUESTS),
    _f("provisioning-request-max-backoff-time", "duration", "10m0s", why=_REQUESTS),
    _f("provisioning-request-max-backoff-cache-size", "int", "1000", why=_REQUESTS),
    _f("check-capacity-batch-processing", "bool", "false", why=_REQUESTS),
    _f("check-capacity-provisioning-request-max-batch-size", "int", "10", why=_REQUESTS),
    _f("check-capacity-provisioning-request-batch-timebox", "duration", "10s", why=_REQUESTS),
    _f("check-capacity-processor-instance", "text", "", why=_REQUESTS),
    _f("max-inactivity", "duration", "10m0s", why=_HEALTH),
    _f("max-failing-time", "duration", "15m0s", why=_HEALTH),
    _f("max-startup-time", "duration", "20m0s", why=_HEALTH),
    _f("kube-client-qps", "float", "5", why=_CLIENT),
    _f("kube-client-burst", "int", "10", why=_CLIENT),
    _f("kube-api-content-type", "text", "application/vnd.kubernetes.protobuf", why=_CLIENT),
    _f("user-agent", "text", "cluster-autoscaler", why=_CLIENT),
    _f("profiling", "bool", "false", why="the process has no such listener"),
    _f("debugging-snapshot-enabled", "bool", "false", why="`GET /dumpstate` always"),
    _f("emit-per-nodegroup-metrics", "bool", "false", why="groups always have metrics; equal Events are merged"),
    _f("record-duplicated-events", "bool", "false", why="groups always have metrics; equal Events are merged"),
    _f("node-removal-latency-tracking-enabled", "bool", "false", why="metrics of removals are always there"),
    _f("max-node-skip-eval-time-tracker-enabled", "bool", "false", why="metrics of removals are always there"),
    _f("scheduler-verbosity", "int", "0", why=_LOGS),
    _f("bulk-mig-instances-listing-enabled", "bool", "false", why=_CLOUD),
    _f("gce-concurrent-refreshes", "int", "1", why=_CLOUD),
    _f("gce-mig-instances-min-refresh-wait-time", "duration", "5s", why=_CLOUD),
    _f("aws-use-static-instance-list", "bool", "false", why="instance types are asked of EC2, not of a list", fixed="false"),
    _older("max-empty-bulk-delete", "int", "10", "scaleDown.maxScaleDownParallelism", "a former name, unless both are set"),
    _older("node-autoprovisioning-enabled", "bool", "false", why=_GROUPS),
    _older("max-autoprovisioned-node-group-count", "int", "15", why=_GROUPS),
    _older("gce-expander-ephemeral-storage-support", "bool", "false", why=_CLOUD),
    _older("parallel-drain", "bool", "true", why="`autoscaler.scaleDown.maxDrainParallelism` limits drains"),
    _older("extra-capacity-min-rate", "float", "0", why="proposed, never built: `autoscaler.slack.extraCapacity`"),
    *(_older(f"leader-elect{end}", "bool" if not end else "text", "", why=_ELECTION)
      for end in ("", "-lease-duration", "-renew-deadline", "-retry-period", "-resource-lock", "-resource-name",
                  "-resource-namespace")),
    *(_older(name, "bool", "false", why=_LOGS)
      for name in ("logtostderr", "alsologtostderr", "add-dir-header", "skip-headers", "skip-log-headers", "one-output",
                   "log-json-split-stream", "log-text-split-stream")),
    *(_older(name, "text", "", why=_LOGS)
      for name in ("v", "vmodule", "stderrthreshold", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size",
                   "log-flush-frequency", "logging-format", "log-json-info-buffer-size", "log-text-info-buffer-size")),
    _older("feature-gates", "text", "", why="gates of Cluster Autoscaler's libraries"),
)  # fmt: skip
BY_NAME: Final = {flag.name: flag for flag in FLAGS}

#: What Cluster Autoscaler does without a flag for it: setting, value, why.
WITHOUT_FLAG: Final = (
    ("autoscaler.maxNodesInCreation", 0, "Cluster Autoscaler does not limit nodes in creation"),
    ("autoscaler.scaleDown.choice", "list", "the order of Cluster Autoscaler"),
)
