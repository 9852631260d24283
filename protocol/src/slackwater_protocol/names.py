"""Well-known names: annotations, labels, taints and API groups that Slackwater reads or writes.

The comment on each name says on what objects it is, what its value is, and what it means. Deliberately absent: names that no
part of Slackwater uses, and the names of metrics, Events and reasons, which are in the modules that report them.
"""

from typing import Final

# Names of Slackwater.

#: Prefix of our annotations and labels.
SLACKWATER_GROUP: Final = "slackwater.dev"
#: `apiVersion` of the configuration file.
CONFIG_API_VERSION: Final = "config.slackwater.dev/v1alpha1"
#: `kind` of the configuration file.
CONFIG_KIND: Final = "SlackwaterConfiguration"
#: Annotation on a VirtualMachine, or on a Pod without one: the permit and the permit limit of its agent, as JSON.
PERMIT: Final = "slackwater.dev/permit"
#: Annotation on a pending preemptor: the node and the victims' UIDs, so that a restart can continue the preemption.
PREEMPTING: Final = "slackwater.dev/preempting"
#: Entry in a Pod's `spec.schedulingGates`, set when the Pod is created: kube-scheduler ignores the Pod until we remove it.
GATE: Final = "slackwater.dev/gate"
#: Annotation on a plain Pod: JSON with min and max as in `NEON_BOUNDS`. Makes the Pod a workload that grows in place.
BOUNDS: Final = "slackwater.dev/bounds"
#: Annotation on a Pod with `BOUNDS`: the container that is resized. Not needed if the Pod has only one container.
BOUNDS_CONTAINER: Final = "slackwater.dev/bounds-container"
#: Annotation on a VirtualMachineMigration of ours: the node on which room is held for its target pod.
TARGET_NODE: Final = "slackwater.dev/target-node"
#: Label on a Node: the node group that it belongs to.
NODE_GROUP: Final = "slackwater.dev/node-group"
#: Annotation on a Node, or on a group's own object (a MachineDeployment): whose node group it is. Any value but `slackwater`
#: names another autoscaler.
OWNED_BY: Final = "slackwater.dev/owned-by"
#: Annotation on a Pod or a controller, "2" or "10%": placeholders keep room for this number or share of further pods like it.
SLACK: Final = "slackwater.dev/slack"
#: Annotation on a Node, "true": Slackwater cordoned the node because its removal has begun; it was not a person.
CORDONED: Final = "slackwater.dev/cordoned"
#: Annotation on a pending Pod: a new value activates the Pod, since kube-scheduler retries a refused Pod that changes.
TOUCHED: Final = "slackwater.dev/touched"

#: ConfigMap in namespace kube-system: one key for each paused activity, or the key `all`. The value is a note for people.
PAUSE_CONFIG_MAP: Final = "slackwater-pause"
#: Prefix of the names of the ConfigMaps in namespace kube-system that have the history of pods and nodes, compressed.
HISTORY_CONFIG_MAPS: Final = "slackwater-history-"

# How agents find the scheduler's Pods.

#: Namespace in which agents look for the scheduler's Pods.
SCHEDULER_NAMESPACE: Final = "kube-system"
#: Label on a scheduler's Pod; the value is the scheduler's name.
SCHEDULER_NAME_LABEL: Final = "name"

# Neon: virtual machines and their autoscaling.

#: API group of VirtualMachine and VirtualMachineMigration.
NEON_VM_GROUP: Final = "vm.neon.tech"
#: The version of `NEON_VM_GROUP`.
NEON_VM_VERSION: Final = "v1"
#: Label on a runner Pod: the name of its VirtualMachine.
NEON_VM_NAME: Final = "vm.neon.tech/name"
#: Annotation on a runner Pod: JSON with `cpus` and `memorySlots` (min, max and use of each), and `memorySlotSize`.
NEON_VM_RESOURCES: Final = "vm.neon.tech/resources"
#: Label on a VirtualMachine and its Pod, "true": scaling is on.
NEON_ENABLED: Final = "autoscaling.neon.tech/enabled"
#: Label on a VirtualMachine and its Pod, "true": it may be migrated.
NEON_AUTO_MIGRATION: Final = "autoscaling.neon.tech/auto-migration-enabled"
#: Label on a VirtualMachine and its Pod, "true": it is always migrated, or always a candidate (tests).
NEON_ALWAYS_MIGRATE: Final = "autoscaling.neon.tech/testing-only-always-migrate"
#: Label on a VirtualMachineMigration that a scheduler created and has to delete when it has finished; any value.
NEON_CREATED_BY_SCHEDULER: Final = "autoscaling.neon.tech/created-by-scheduler"
#: Annotation on a VirtualMachine and its Pod: JSON `{min: {cpu, mem}, max: {cpu, mem}}`. Overrides the bounds in the spec.
NEON_BOUNDS: Final = "autoscaling.neon.tech/bounds"

# Names of Cluster Autoscaler and related projects.

#: Annotation on a Pod, "true", "false" or "on-completion": whether the Pod may be evicted when its node is removed.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Annotation on a Pod: names of those of its volumes, separated by commas, that may be lost when the Pod is evicted.
SAFE_TO_EVICT_LOCAL_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
#: Annotation on a Pod, "true": the Pod counts as a DaemonSet pod when its node is removed.
DAEMON_SET_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
#: Annotation on a mirror pod, which shows a static pod of a kubelet; any value.
MIRROR_POD: Final = "kubernetes.io/config.mirror"
#: Annotation on a static pod or its mirror pod: where the kubelet got it from, "file" or "http".
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
#: Annotation on a Pod, a duration: no node is added for the Pod until it has existed for so long.
SCALE_UP_DELAY: Final = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
#: Annotation on a Node, "true": scale-down never removes the node.
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
#: Label of template nodes alone, "true": what no node has yet, such as the storage of a node to come, is published for it.
TEMPLATE_NODE: Final = "cluster-autoscaler.kubernetes.io/template-node"
#: NoSchedule taint on a Node whose removal has begun. The value is the time of the beginning, in Unix seconds.
TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
#: PreferNoSchedule taint on a Node that is a candidate for removal. The value is the time since when, in Unix seconds.
DELETION_CANDIDATE_TAINT: Final = "DeletionCandidateOfClusterAutoscaler"
#: Prefix, before the slash, of annotations on a Node: while the Node has one, its deletion waits.
DELAY_DELETION_GROUP: Final = "delay-deletion.cluster-autoscaler.kubernetes.io"
#: Annotation on a Pod, an integer: a ReplicaSet that shrinks removes Pods of a lower cost first.
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: Annotation on a Pod, an integer: what its eviction costs when a node is removed. Counts before `POD_DELETION_COST`.
DISRUPTION_COST: Final = "node-autoscaling.kubernetes.io/disruption-cost"
#: Karpenter's annotation with the meaning of `DISRUPTION_COST`. Counts before it.
KARPENTER_DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
#: Annotation on a Pod: the ProvisioningRequest that provides its nodes. No node is added for the Pod.
CONSUME_PROVISIONING_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
#: The older name of `CONSUME_PROVISIONING_REQUEST`.
CONSUME_PROVISIONING_REQUEST_OLD: Final = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
#: KAI Scheduler's annotation on a Pod, a duration: the Pod preempts nobody until it has been refused for so long.
PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"
#: Karpenter's annotation on a Pod or Node, "true": it is not disrupted. On a Pod also a duration after its start.
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
#: API group of CapacityBuffer.
CAPACITY_BUFFER_GROUP: Final = "autoscaling.x-k8s.io"
#: API group of MachineDeployment, MachineSet, MachinePool and Machine.
CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"
