"""The RBAC rules of the service: everything that it may do at the API server.

In: the settings. Out: ClusterRole, Roles and bindings (`slackwater config rbac F`), `deploy/rbac.yaml`, and the chart's rules.
A feature's rules are granted only if the configuration uses the feature.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from slackwater.adapters.cloud.kwok.provider import CONFIG_MAP
from slackwater.adapters.kube.config_maps import ARRIVALS_CONFIG_MAP, PRIORITIES_CONFIG_MAP
from slackwater.adapters.kube.history import config_map_names
from slackwater.app.cleanup import TYPES
from slackwater.app.clouds import uses_clusterapi, uses_kwok
from slackwater.app.leader_election import lease_name
from slackwater.app.policies import slo_classes_of
from slackwater.app.settings import Settings
from slackwater_protocol.names import CAPACITY_BUFFER_GROUP, CLUSTER_API_GROUP, PAUSE_CONFIG_MAP, SCHEDULER_NAMESPACE

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_RULES: Final[tuple[dict[str, Any], ...]] = (
    # What the cluster state is built from.
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
    # The extender's bind.
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    # Activating a pending pod, so that kube-scheduler tries it again; nominating a node for it.
    {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"]},
    # Preemption: a victim gets its condition by a patch of its status, then it is deleted.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    # NeonVM: permits are persisted on the VirtualMachine before they are answered. The CRDs may be absent.
    {"apiGroups": ["vm.neon.tech"], "resources": ["virtualmachines"], "verbs": ["get", "list", "watch", "patch"]},
    # Live migrations: created if a node has too much CapacityPressure, deleted when they have ended.
    {
        "apiGroups": ["vm.neon.tech"],
        "resources": ["virtualmachinemigrations"],
        "verbs": ["list", "watch", "create", "delete"],
    },
    # In-place resize of plain pods with bounds.
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    # Verifying agents' tokens, if listeners.agents.authentication.tokens is set.
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    # Kubernetes Events.
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
)


#: Rules for the ConfigMap that says which activities a person has paused; in namespace kube-system.
_PAUSES: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [PAUSE_CONFIG_MAP], "verbs": ["list", "watch"]},
)
#: Rules for the history's ConfigMaps; in namespace kube-system. RBAC cannot restrict `create` to a name.
_HISTORY: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": config_map_names(), "verbs": ["get", "patch"]},
)
#: The autoscaler: further objects that placement depends on, DaemonSets for template nodes, and the removal of nodes.
_AUTOSCALER: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["namespaces", "persistentvolumeclaims", "persistentvolumes"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
        "verbs": ["list", "watch"],
    },
    # Devices (dynamic resource allocation); clusters before Kubernetes 1.34 have no such objects.
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "devicetaintrules", "deviceclasses", "resourceclaims", "resourceclaimtemplates"],
        "verbs": ["list", "watch"],
    },
    # DaemonSets: the pods of new nodes. The others: how many pods a controller wants, to judge evictions.
    {"apiGroups": ["apps"], "resources": ["daemonsets", "replicasets", "statefulsets"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["list", "watch"]},
    # Services: with controllers they say which pods hard default spread constraints count; watched only where a profile of
    # kube-scheduler has such constraints.
    {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
    # Removing nodes: taints and the cordon; evicting their pods.
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
)
#: Slack: workloads that may have the slack annotation, quotas that limit the room for them, and CapacityBuffer objects, whose
#: CRD may be absent.
_SLACK: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["podtemplates", "resourcequotas"], "verbs": ["list", "watch"]},
    {"apiGroups": [CAPACITY_BUFFER_GROUP], "resources": ["capacitybuffers"], "verbs": ["list", "watch"]},
    {"apiGroups": [CAPACITY_BUFFER_GROUP], "resources": ["capacitybuffers/status"], "verbs": ["patch"]},
)
#: The provider kwok creates and deletes Node objects.
_KWOK: Final = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "patch", "delete"]},)
#: The provider kwok persists its machines in creation in a ConfigMap. RBAC cannot restrict `create` to a name.
_KWOK_RECORD: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP], "verbs": ["get", "patch"]},
)
#: The persisted arrival history of pods with a start-time SLO.
_ARRIVALS: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [ARRIVALS_CONFIG_MAP], "verbs": ["get", "patch"]},
)
_SCALED: Final = ("machinedeployments", "machinesets", "machinepools")
_CLUSTER_API: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [CLUSTER_API_GROUP], "resources": [*_SCALED], "verbs": ["get", "list"]},
    {"apiGroups": [CLUSTER_API_GROUP], "resources": [f"{plural}/scale" for plural in _SCALED], "verbs": ["update"]},
    # Machines chosen for removal are marked. They are deleted too if others of their group are still being created.
    {"apiGroups": [CLUSTER_API_GROUP], "resources": ["machines"], "verbs": ["get", "list", "patch", "delete"]},
    # The capacity of a new machine, if the group does not state it: infrastructure templates of any kind.
    {"apiGroups": [f"infrastructure.{CLUSTER_API_GROUP}"], "resources": ["*"], "verbs": ["get"]},
)


def parts() -> dict[str, list[dict[str, Any]]]:
    """All rules, grouped by the feature that needs them. The Helm chart (`deploy/chart`) builds its roles from them and fills
    in the names `${...}`."""
    named = {
        "always": _RULES,
        "pauses": _PAUSES,
        "history": _HISTORY,
        "cleanup": cleanup_rules(),
        "autoscaler": _AUTOSCALER,
        "slack": _SLACK,
        "kwok": _KWOK,
        "clusterapi": _CLUSTER_API,
        "kwokRecord": _KWOK_RECORD,
        "autoscalerStatus": _status_rules("${statusConfigMap}"),
        "startTimeSLOs": _ARRIVALS,
        "leaderElection": _lease_rules("${lease}"),
    }
    return {name: [dict(rule) for rule in rules] for name, rules in named.items()}


def cluster_role(settings: Settings | None = None) -> dict[str, Any]:
    """The ClusterRole for the settings, or for the default settings. Rights on a separate management cluster of Cluster API
    are not included."""
    return _role("ClusterRole", {"name": "slackwater"}, (*_RULES, *_provider_rules(settings or Settings())))


def record_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the ConfigMap of the provider kwok; None if that provider is not used."""
    if not (settings.autoscaler.enabled and uses_kwok(settings)):
        return None
    namespace = settings.autoscaler.providers.kwok.namespace
    return _role("Role", {"name": "slackwater-kwok", "namespace": namespace}, _KWOK_RECORD)


def cleanup_rules() -> tuple[dict[str, Any], ...]:
    """Rules for `slackwater cleanup`, which is used after the service has been stopped."""
    rules: list[dict[str, Any]] = []
    for cleaned in TYPES:
        verbs = ["get", "list", "patch", *(["delete"] if cleaned.deletes else [])]
        rules.append({"apiGroups": [cleaned.group], "resources": [cleaned.name], "verbs": verbs})
        if cleaned.status:
            rules.append({"apiGroups": [cleaned.group], "resources": [f"{cleaned.name}/status"], "verbs": ["patch"]})
    return tuple(rules)


def pause_role() -> dict[str, Any]:
    """The Role for the ConfigMap that says which activities are paused."""
    return _role("Role", {"name": "slackwater-pause", "namespace": SCHEDULER_NAMESPACE}, _PAUSES)


def history_role(settings: Settings | None) -> dict[str, Any] | None:
    """The Role for the ConfigMaps of the history; None if the history is not persisted."""
    if not (settings or Settings()).history.persist:
        return None
    return _role("Role", {"name": "slackwater-history", "namespace": SCHEDULER_NAMESPACE}, _HISTORY)


def status_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the autoscaler's ConfigMaps: status, the priorities of the expander, and the arrival history. None if the
    autoscaler is off."""
    if not settings.autoscaler.enabled:
        return None
    rules = (*_status_rules(settings.autoscaler.status_config_map), *(_ARRIVALS if slo_classes_of(settings) else ()))
    return _role("Role", {"name": "slackwater-autoscaler", "namespace": SCHEDULER_NAMESPACE}, rules)


def _status_rules(config_map: str) -> tuple[dict[str, Any], ...]:
    return (
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config_map], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [PRIORITIES_CONFIG_MAP], "verbs": ["get"]},
    )


def lease_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the leader election's Lease; None if there is no election. If the Lease is kube-scheduler's, the Role still
    allows writes: both containers of the Pod share the account."""
    election = settings.leader_election
    if election.mode == "none":
        return None
    rules = _lease_rules(lease_name(settings))
    return _role("Role", {"name": "slackwater-leader-election", "namespace": election.resource_namespace}, rules)


def _lease_rules(name: str) -> tuple[dict[str, Any], ...]:
    """Rules for the Lease. RBAC cannot restrict `create` to a name."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {**lease, "verbs": ["create"]}, {**lease, "resourceNames": [name], "verbs": ["get", "watch", "update"]}


def _provider_rules(settings: Settings) -> Iterator[dict[str, Any]]:
    if not settings.autoscaler.enabled:
        return
    yield from _AUTOSCALER
    if settings.feature_gates.resource_slack and settings.autoscaler.slack.headroom:
        yield from _SLACK
    if uses_kwok(settings):
        yield from _KWOK
    section = settings.autoscaler.providers.clusterapi
    if uses_clusterapi(settings) and (section is None or section.kubeconfig is None):
        yield from _CLUSTER_API


def _role(kind: str, metadata: dict[str, str], rules: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [dict(rule) for rule in rules],
    }


def cluster_role_binding(subject: dict[str, str]) -> dict[str, Any]:
    """The ClusterRoleBinding that gives the ClusterRole to `subject`, an entry of its `subjects`."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "slackwater"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slackwater"},
        "subjects": [subject],
    }


def role_binding(role: dict[str, Any], subject: dict[str, str]) -> dict[str, Any]:
    """The RoleBinding that gives the Role to `subject`, in the Role's namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]},
        "subjects": [subject],
    }


def user(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def manifest(settings: Settings | None = None) -> str:
    """The roles, the ServiceAccount and the bindings as one YAML file for `kubectl apply -f`."""
    account = {"kind": "ServiceAccount", "name": "slackwater", "namespace": "kube-system"}
    new = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "slackwater", "namespace": "kube-system"}}
    first, *others = rights(settings, account)
    return "---\n".join(yaml.safe_dump(item, sort_keys=False) for item in (first, new, *others))


def rights(settings: Settings | None, subject: dict[str, str]) -> list[dict[str, Any]]:
    """All roles for the settings, or for the default settings; each role is followed by its binding to `subject`."""
    optional = () if settings is None else (lease_role(settings), record_role(settings), status_role(settings))
    found = [cluster_role(settings), cluster_role_binding(subject)]
    for role in (pause_role(), history_role(settings), *optional):
        if role is not None:
            found += [role, role_binding(role, subject)]
    return found


def collection_path(item: Mapping[str, Any]) -> str:
    """The path to which a role or binding is posted."""
    plural, namespace = f"{item['kind'].lower()}s", item["metadata"].get("namespace")
    return f"{_RBAC}/{plural}" if namespace is None else f"{_RBAC}/namespaces/{namespace}/{plural}"
