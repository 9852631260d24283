"""Well-known names: annotations, labels, taints and API groups that Slackwater reads or writes.

One line each: where it sits, what its value is, what it means. Deliberately absent: names that no part of Slackwater
acts upon, and the names of metrics, Events and reasons, which live beside what they report.
"""

from typing import Final

# Slackwater's own.

#: Prefix of our annotations and labels.
SLACKWATER_GROUP: Final = "slackwater.dev"
#: `apiVersion` of the configuration file.
CONFIG_API_VERSION: Final = "config.slackwater.dev/v1alpha1"
#: `kind` of the configuration file.
CONFIG_KIND: Final = "SlackwaterConfiguration"
#: Annotation on a VirtualMachine, or on a Pod without one: JSON `{permit, permit limit}`, what its agent may use.
PERMIT: Final = "slackwater.dev/permit"
#: Annotation on a pending preemptor: its node and its victims' UIDs, so that a restart can go on.
PREEMPTING: Final = "slackwater.dev/preempting"
#: Entry of a Pod's `spec.schedulingGates`, put there at its creation: kube-scheduler does not look at it until we take it away.
GATE: Final = "slackwater.dev/gate"
#: Annotation on a plain Pod: JSON min and max like `NEON_BOUNDS`; makes it a vertical workload, resized in place.
BOUNDS: Final = "slackwater.dev/bounds"
#: Annotation on a Pod with `BOUNDS`: the container that is resized; default the only one.
BOUNDS_CONTAINER: Final = "slackwater.dev/bounds-container"
#: Annotation on a VirtualMachineMigration of ours: the node that room is kept on for its target pod.
TARGET_NODE: Final = "slackwater.dev/target-node"
#: Label on a Node: the node group that it belongs to.
NODE_GROUP: Final = "slackwater.dev/node-group"
#: Annotation on a Pod or on what makes pods, "2" or "10%": room is kept for so many more like it.
SLACK: Final = "slackwater.dev/slack"
#: Annotation on a Node, "true": unschedulable because its removal has begun, not by a person's hand.
CORDONED: Final = "slackwater.dev/cordoned"
#: Annotation on a pending Pod: any new value wakes it, since kube-scheduler retries a rejected pod that changes.
TOUCHED: Final = "slackwater.dev/touched"

#: ConfigMap in namespace kube-system: a key for each paused activity, or `all`; its value is a note for people.
PAUSE_CONFIG_MAP: Final = "slackwater-pause"
#: Beginning of the names of ConfigMaps in namespace kube-system: what happened to pods and nodes, compressed.
HISTORY_CONFIG_MAPS: Final = "slackwater-history-"

# How agents find the scheduler's Pods.

#: Namespace in which agents look.
SCHEDULER_NAMESPACE: Final = "kube-system"
#: Label on a scheduler's Pod; the value is the scheduler's name.
SCHEDULER_NAME_LABEL: Final = "name"

# Neon: virtual machines and their autoscaling.

#: API group of VirtualMachine and VirtualMachineMigration.
NEON_VM_GROUP: Final = "vm.neon.tech"
#: The version of that group.
NEON_VM_VERSION: Final = "v1"
#: Label on a runner Pod: the name of its VirtualMachine.
NEON_VM_NAME: Final = "vm.neon.tech/name"
#: Annotation on a runner Pod: JSON `cpus`, `memorySlots` (each min, max, use) and `memorySlotSize`.
NEON_VM_RESOURCES: Final = "vm.neon.tech/resources"
#: Label on a VirtualMachine and its Pod, "true": scaling is on.
NEON_ENABLED: Final = "autoscaling.neon.tech/enabled"
#: Label on a VirtualMachine and its Pod, "true": it may be migrated.
NEON_AUTO_MIGRATION: Final = "autoscaling.neon.tech/auto-migration-enabled"
#: Label on a VirtualMachine and its Pod, "true": it is always migrated, or always a candidate (tests).
NEON_ALWAYS_MIGRATE: Final = "autoscaling.neon.tech/testing-only-always-migrate"
#: Label on a VirtualMachineMigration: the scheduler made it; watched and cleaned up by its presence.
NEON_CREATED_BY_SCHEDULER: Final = "autoscaling.neon.tech/created-by-scheduler"
#: Annotation on a VirtualMachine and its Pod: JSON `{min: {cpu, mem}, max: {cpu, mem}}`, overrides the machine's own.
NEON_BOUNDS: Final = "autoscaling.neon.tech/bounds"

# Cluster Autoscaler and its neighbours: what users already have.

#: Annotation on a Pod, "true", "false" or "on-completion": may it be moved to remove its node.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Annotation on a Pod: names of its volumes, with commas between, that may be lost when it is moved.
SAFE_TO_EVICT_LOCAL_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
#: Annotation on a Pod, "true": it counts as a DaemonSet's when its node is removed.
DAEMON_SET_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
#: Annotation on a Pod that a kubelet runs from a file: any value.
MIRROR_POD: Final = "kubernetes.io/config.mirror"
#: Annotation on such a Pod: where the kubelet has it from, "file" or "http".
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
#: Annotation on a Pod, a duration: for so long after its creation no node is added for it.
SCALE_UP_DELAY: Final = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
#: Annotation on a Node, "true": never removed.
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
#: Taint on a Node, Unix seconds, NoSchedule: its removal has begun.
TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
#: Taint on a Node, Unix seconds, PreferNoSchedule: unneeded since then.
DELETION_CANDIDATE_TAINT: Final = "DeletionCandidateOfClusterAutoscaler"
#: What annotations on a Node begin with, before the slash: while there is one, its deletion waits.
DELAY_DELETION_GROUP: Final = "delay-deletion.cluster-autoscaler.kubernetes.io"
#: Annotation on a Pod, an integer: the lower, the sooner its controller would remove it.
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: API group of CapacityBuffer.
CAPACITY_BUFFER_GROUP: Final = "autoscaling.x-k8s.io"
#: API group of MachineDeployment, MachineSet, MachinePool and Machine.
CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"
