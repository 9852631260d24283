"""One whole object of each type that a parser reads, with everything in it that the parser looks at."""

import json
from pathlib import Path
from typing import Any, Final

_EXAMPLES: Final = Path("openapi/examples")

Json = dict[str, Any]

_TERM: Final = {
    "topologyKey": "topology.kubernetes.io/zone",
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]},
    "namespaces": ["x"],
    "namespaceSelector": {"matchLabels": {"team": "t"}},
    "matchLabelKeys": ["e"],
}
_NODE_TERM: Final = {
    "matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
_SPEC: Final[Json] = {
    "schedulerName": "slackwater",
    "nodeName": "n",
    "priority": 5,
    "preemptionPolicy": "Never",
    "overhead": {"cpu": "10m"},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 5}],
    "schedulingGates": [{"name": "slackwater.dev/gate"}],
    "resources": {"requests": {"cpu": "1"}},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": _NODE_TERM}],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": _TERM}]},
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "minDomains": 2,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
            "nodeAffinityPolicy": "Honor",
            "matchLabelKeys": ["e"],
        }
    ],
    "containers": [
        {
            "name": "app",
            "image": "i:1",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "1.2.3.4"}],
            "resources": {"requests": {"cpu": "250m", "memory": "1Gi", "example.com/gpu": "1"}, "limits": {"cpu": "1"}},
        }
    ],
    "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
    "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "b", "emptyDir": {}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "s"}}}},
    ],
}
POD: Final[Json] = {
    "metadata": {
        "name": "p",
        "namespace": "d",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "annotations": {
            "slackwater.dev/bounds": '{"min":{"cpu":"1","memory":"1Gi"},"max":{"cpu":"4","memory":"4Gi"}}',
            "slackwater.dev/permit": '{"permit":{"cpu":"1","memory":"1Gi"},"limit":{"cpu":"2","memory":"2Gi"}}',
            "slackwater.dev/preempting": '{"node":"n","victims":["v"]}',
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            "cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "1m",
            "controller.kubernetes.io/pod-deletion-cost": "5",
        },
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}],
    },
    "spec": _SPEC,
    "status": {
        "phase": "Running",
        "nominatedNodeName": "m",
        "startTime": "2026-01-01T00:00:00Z",
        "resize": "Proposed",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}],
        "containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}],
        "allocatedResources": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}},
    },
}
NODE: Final[Json] = {
    "metadata": {
        "name": "n",
        "uid": "un",
        "resourceVersion": "9",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"topology.kubernetes.io/zone": "a"},
        "annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
    },
    "spec": {
        "unschedulable": True,
        "providerID": "kwok://n",
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "images": [{"names": ["i:1"], "sizeBytes": 5}],
        "declaredFeatures": ["F"],
    },
}
BUDGET: Final[Json] = {
    "metadata": {"name": "b", "namespace": "d", "uid": "ub", "resourceVersion": "3"},
    "spec": {"selector": _TERM["labelSelector"], "maxUnavailable": "10%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
}
MACHINE: Final[Json] = {
    "metadata": {"name": "m", "namespace": "d", "uid": "um", "annotations": {"slackwater.dev/permit": "{}"}},
    "spec": {"guest": {"cpus": {"min": "1", "use": "2", "max": "4"}, "memorySlots": {"min": 1, "use": 2, "max": 4}}},
    "status": {"podName": "p", "phase": "Running"},
}
MIGRATION: Final[Json] = {
    "metadata": {"name": "g", "namespace": "d", "uid": "ug", "ownerReferences": [{"kind": "VirtualMachine", "name": "m"}]},
    "spec": {"vmName": "m"},
    "status": {"phase": "Pending", "sourcePodName": "p", "targetPodName": "q", "sourceNode": "n", "targetNode": "o"},
}
BUFFER: Final[Json] = {
    "metadata": {"name": "b", "namespace": "d", "generation": 2, "uid": "ub"},
    "spec": {
        "podTemplateRef": {"name": "t"},
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"},
        "replicas": 3,
        "percentage": 10,
        "limits": {"cpu": "10", "memory": "10Gi"},
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
    },
    "status": {"replicas": 1, "conditions": [{"type": "ReadyForProvisioning", "status": "True", "lastTransitionTime": "x"}]},
}
TEMPLATED: Final[Json] = {
    "metadata": {"name": "w", "namespace": "d", "uid": "uw", "generation": 1, "annotations": {"slackwater.dev/slack": "10%"}},
    "spec": {"replicas": 3, "template": {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC}},
    "status": {"replicas": 2},
}
STORED: Final[dict[str, Json]] = {
    "claim": {
        "metadata": {"name": "c", "namespace": "d", "uid": "uc", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "volumeName": "v",
            "storageClassName": "s",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    },
    "volume": {
        "metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": "a__b"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": "c", "namespace": "d", "uid": "uc"},
            "csi": {"driver": "x", "volumeHandle": "h"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "s",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_NODE_TERM]}},
        },
        "status": {"phase": "Available"},
    },
    "class": {
        "metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "x",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    "csi-node": {
        "metadata": {"name": "n", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "a,b"}},
        "spec": {"drivers": [{"name": "x", "nodeID": "i", "allocatable": {"count": 5}, "topologyKeys": ["zone"]}]},
    },
    "driver": {"metadata": {"name": "x"}, "spec": {"storageCapacity": True}},
    "capacity": {
        "metadata": {"name": "k", "namespace": "d"},
        "storageClassName": "s",
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    },
    "attachment": {
        "metadata": {"name": "t"},
        "spec": {"attacher": "x", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        "status": {"attached": True},
    },
}


def recorded(name: str) -> Any:
    return json.loads((_EXAMPLES / f"{name}.request.json").read_text())


PLACING: Final[Json] = {**recorded("filter-by-name"), "Pod": POD}
BINDING: Final[Json] = recorded("bind-granted")
PREEMPTION: Final[Json] = recorded("preempt-by-uid")
AGENT: Final[Json] = recorded("agent-granted")
