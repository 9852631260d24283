"""The RBAC rules of the service: everything that it may do at the API server.

In: the settings. Out: ClusterRole, Roles and bindings (`slackwater config rbac F`), `deploy/rbac.yaml`, and the chart's rules.
A feature's rules are granted only if the configuration uses the feature. A shadow gets those of its rules that read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from slackwater.adapters.cloud.karpenter.objects import EVENTS_NAMESPACE
from slackwater.adapters.cloud.kwok.provider import CONFIG_MAP
from slackwater.adapters.kube.config_maps import ARRIVALS_CONFIG_MAP, PRIORITIES_CONFIG_MAP
from slackwater.adapters.kube.history import config_map_names
from slackwater.app.cleanup import TYPES
from slackwater.app.clouds import uses_clusterapi, uses_karpenter, uses_kwok
from slackwater.app.leader_election import lease_name
from slackwater.app.policies import slo_classes_of
from slackwater.app.running_service import PROXIED
from slackwater.app.settings import Settings
from slackwater_protocol.names import CAPACITY_BUFFER_GROUP, CLUSTER_API_GROUP, PAUSE_CONFIG_MAP, SCHEDULER_NAMESPACE

_GROUP: Final = "rbac.authorization.k8s.io"


def _rule(group: str, resources: str, verbs: str, names: Iterable[str] = ()) -> dict[str, Any]:
    """A rule for resources of an API group; with `names`, only for the objects of these names. Spaces separate words."""
    named = {"resourceNames": [*names]} if names else {}
    return {"apiGroups": [group], "resources": resources.split(), **named, "verbs": verbs.split()}


def _created(group: str, resource: str, verbs: str, names: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """The rules for the objects `names`, which the service creates. RBAC cannot restrict `create` to a name."""
    return _rule(group, resource, "create"), _rule(group, resource, verbs, names)


_RULES: Final = (
    # What the cluster state is built from.
    _rule("", "nodes pods", "get list watch"),
    _rule("policy", "poddisruptionbudgets", "list watch"),
    # The extender's bind.
    _rule("", "pods/binding", "create"),
    # Activating a pending pod, so that kube-scheduler tries it again; nominating a node for it.
    _rule("", "pods pods/status", "patch"),
    # Preemption: a victim gets its condition by a patch of its status, then it is deleted.
    _rule("", "pods", "delete"),
    # NeonVM: permits are persisted on the VirtualMachine before they are answered. The CRDs may be absent.
    _rule("vm.neon.tech", "virtualmachines", "get list watch patch"),
    # Live migrations: created if a node has too much CapacityPressure, deleted when they have ended.
    _rule("vm.neon.tech", "virtualmachinemigrations", "list watch create delete"),
    # In-place resize of plain pods with bounds.
    _rule("", "pods/resize", "patch"),
    # Verifying agents' tokens, if listeners.agents.authentication.tokens is set.
    _rule("authentication.k8s.io", "tokenreviews", "create"),
    # Kubernetes Events.
    _rule("events.k8s.io", "events", "create patch"),
)


#: Rules for the ConfigMap that says which activities a person has paused; in namespace kube-system.
_PAUSES: Final = (_rule("", "configmaps", "list watch", [PAUSE_CONFIG_MAP]),)
#: Rules for the history's ConfigMaps; in namespace kube-system.
_HISTORY: Final = _created("", "configmaps", "get patch", config_map_names())
#: What nodes use, for the dashboard.
_NODE_USE: Final = (_rule("metrics.k8s.io", "nodes", "list"),)
#: Whoever may ask the service through the API server, and only read. A name is all of a path's part, so each way to write the
#: Service and its port is one of its own.
_READERS: Final = (_rule("", "services/proxy", "get", PROXIED),)
#: The autoscaler: further objects that placement depends on, DaemonSets for template nodes, and the removal of nodes.
_AUTOSCALER: Final = (
    _rule("", "namespaces persistentvolumeclaims persistentvolumes", "list watch"),
    _rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", "list watch"),
    # Devices (dynamic resource allocation); clusters before Kubernetes 1.34 have no such objects.
    _rule(
        "resource.k8s.io", "resourceslices devicetaintrules deviceclasses resourceclaims resourceclaimtemplates", "list watch"
    ),
    # DaemonSets: the pods of new nodes. The others: how many pods a controller wants, to judge evictions.
    _rule("apps", "daemonsets replicasets statefulsets", "list watch"),
    _rule("", "replicationcontrollers", "list watch"),
    # Services: with controllers they say which pods hard default spread constraints count; watched only where a profile of
    # kube-scheduler has such constraints.
    _rule("", "services", "list watch"),
    _rule("batch", "jobs", "list watch"),
    # Removing nodes: taints and the cordon; evicting their pods.
    _rule("", "nodes", "patch"),
    _rule("", "pods/eviction", "create"),
)
#: Slack: workloads that may have the slack annotation, quotas that limit the room for them, and CapacityBuffer objects, whose
#: CRD may be absent.
_SLACK: Final = (
    _rule("apps", "deployments", "list watch"),
    _rule("", "podtemplates resourcequotas", "list watch"),
    _rule(CAPACITY_BUFFER_GROUP, "capacitybuffers", "list watch"),
    _rule(CAPACITY_BUFFER_GROUP, "capacitybuffers/status", "patch"),
)
#: The provider kwok creates and deletes Node objects.
_KWOK: Final = (_rule("", "nodes", "create patch delete"),)
#: The provider kwok persists its machines in creation in a ConfigMap.
_KWOK_RECORD: Final = _created("", "configmaps", "get patch", [CONFIG_MAP])
#: The persisted arrival history of pods with a start-time SLO.
_ARRIVALS: Final = (_rule("", "configmaps", "get patch", [ARRIVALS_CONFIG_MAP]),)
_CLUSTER_API: Final = (
    _rule(CLUSTER_API_GROUP, "machinedeployments machinesets machinepools", "get list"),
    _rule(CLUSTER_API_GROUP, "machinedeployments/scale machinesets/scale machinepools/scale", "update"),
    # Machines chosen for removal are marked. They are deleted too if others of their group are still being created.
    _rule(CLUSTER_API_GROUP, "machines", "get list patch delete"),
    # The capacity of a new machine, if the group does not state it: infrastructure templates of any kind.
    _rule(f"infrastructure.{CLUSTER_API_GROUP}", "*", "get"),
)
_KARPENTER: Final = (
    _rule("karpenter.sh", "nodepools", "get list"),
    _rule("karpenter.sh", "nodeclaims", "get list create delete"),
    _rule("karpenter.sh", "nodeoverlays", "list"),
)
#: Only an Event says why a NodeClaim could not be launched; in the namespace of Events about objects without one.
_KARPENTER_EVENTS: Final = (_rule("", "events", "list"),)

_OF_CLUSTER_AUTOSCALER: Final = "${clusterAutoscalerStatus}"


def parts() -> dict[str, list[dict[str, Any]]]:
    """All rules, grouped by the feature that needs them. The Helm chart (`deploy/chart`) builds its roles from them and fills
    in the names `${...}`."""
    named = {
        "always": _RULES,
        "pauses": _PAUSES,
        "history": _HISTORY,
        "nodeUse": _NODE_USE,
        "cleanup": cleanup_rules(),
        "readers": _READERS,
        "autoscaler": _AUTOSCALER,
        "slack": _SLACK,
        "kwok": _KWOK,
        "clusterapi": _CLUSTER_API,
        "karpenter": _KARPENTER,
        "karpenterEvents": _KARPENTER_EVENTS,
        "kwokRecord": _KWOK_RECORD,
        "autoscalerStatus": _status_rules("${statusConfigMap}", _OF_CLUSTER_AUTOSCALER),
        "startTimeSLOs": _ARRIVALS,
        "leaderElection": _lease_rules("${lease}"),
    }
    shadow = {"always": _RULES, "autoscaler": _AUTOSCALER, "slack": _SLACK, "kwok": _KWOK, "clusterapi": _CLUSTER_API}
    shadow |= {"karpenter": _KARPENTER, "karpenterEvents": _KARPENTER_EVENTS, "pauses": _PAUSES, "kwokRecord": _KWOK_RECORD}
    shadow |= {"nodeUse": _NODE_USE, "autoscalerStatus": _read_rules(_OF_CLUSTER_AUTOSCALER)}
    named |= {f"shadow{name[0].upper()}{name[1:]}": read_only(rules) for name, rules in shadow.items()}
    return {name: [dict(rule) for rule in rules] for name, rules in named.items()}


#: The verbs that change nothing.
_READING: Final = frozenset({"get", "list", "watch"})


def read_only(rules: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The rules without what they allow beyond reading."""
    read = ({**rule, "verbs": [verb for verb in rule["verbs"] if verb in _READING]} for rule in rules)
    return tuple(rule for rule in read if rule["verbs"])


def _is_shadow(settings: Settings | None) -> bool:
    return settings is not None and settings.mode == "shadow"


def cluster_role(settings: Settings | None = None) -> dict[str, Any]:
    """The ClusterRole for the settings, or for the default settings. Rights on a separate management cluster of Cluster API
    are not included."""
    settings = settings or Settings()
    rules = (*_RULES, *(_NODE_USE if settings.kube.node_use else ()), *_provider_rules(settings))
    return _role("ClusterRole", {"name": "slackwater"}, read_only(rules) if _is_shadow(settings) else rules)


def record_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the ConfigMap of the provider kwok; None if that provider is not used."""
    if not (settings.autoscaler.enabled and uses_kwok(settings)):
        return None
    namespace = settings.autoscaler.providers.kwok.namespace
    rules = read_only(_KWOK_RECORD) if _is_shadow(settings) else _KWOK_RECORD
    return _role("Role", {"name": "slackwater-kwok", "namespace": namespace}, rules)


def karpenter_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the Events about NodeClaims; None if the provider karpenter is not used."""
    if not (settings.autoscaler.enabled and uses_karpenter(settings)):
        return None
    return _role("Role", {"name": "slackwater-karpenter", "namespace": EVENTS_NAMESPACE}, _KARPENTER_EVENTS)


def cleanup_rules() -> tuple[dict[str, Any], ...]:
    """Rules for `slackwater cleanup`, which is used after the service has been stopped."""
    rules: list[dict[str, Any]] = []
    for cleaned in TYPES:
        rules.append(_rule(cleaned.group, cleaned.name, "get list patch delete" if cleaned.deletes else "get list patch"))
        if cleaned.status:
            rules.append(_rule(cleaned.group, f"{cleaned.name}/status", "patch"))
    return tuple(rules)


def pause_role() -> dict[str, Any]:
    """The Role for the ConfigMap that says which activities are paused."""
    return _role("Role", {"name": "slackwater-pause", "namespace": SCHEDULER_NAMESPACE}, _PAUSES)


def reader_role() -> dict[str, Any]:
    """The Role of people who ask the service through the API server; the service itself does not need it."""
    return _role("Role", {"name": "slackwater-reader", "namespace": SCHEDULER_NAMESPACE}, _READERS)


def history_role(settings: Settings | None) -> dict[str, Any] | None:
    """The Role for the ConfigMaps of the history; None if the history is not persisted there."""
    if not (settings or Settings()).history.persist or _is_shadow(settings):
        return None
    return _role("Role", {"name": "slackwater-history", "namespace": SCHEDULER_NAMESPACE}, _HISTORY)


def status_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the autoscaler's ConfigMaps: status, the priorities of the expander, and the arrival history. None if the
    autoscaler is off."""
    if not settings.autoscaler.enabled:
        return None
    if _is_shadow(settings):
        rules = _read_rules(settings.autoscaler.cluster_autoscaler_status)
        return _role("Role", {"name": "slackwater-autoscaler", "namespace": SCHEDULER_NAMESPACE}, rules)
    names = settings.autoscaler.status_config_map, settings.autoscaler.cluster_autoscaler_status
    rules = (*_status_rules(*names), *(_ARRIVALS if slo_classes_of(settings) else ()))
    return _role("Role", {"name": "slackwater-autoscaler", "namespace": SCHEDULER_NAMESPACE}, rules)


def _status_rules(config_map: str, of_cluster_autoscaler: str) -> tuple[dict[str, Any], ...]:
    return (*_created("", "configmaps", "get patch", [config_map]), *_read_rules(of_cluster_autoscaler))


def _read_rules(of_cluster_autoscaler: str) -> tuple[dict[str, Any], ...]:
    """The rules for what Cluster Autoscaler's ConfigMaps say: the priorities of groups that an expander reads, and the groups
    in its status; in namespace kube-system."""
    return (_rule("", "configmaps", "get", [PRIORITIES_CONFIG_MAP, of_cluster_autoscaler]),)


def lease_role(settings: Settings) -> dict[str, Any] | None:
    """The Role for the leader election's Lease; None if there is no election. If the Lease is kube-scheduler's, the Role still
    allows writes: both containers of the Pod share the account."""
    election = settings.leader_election
    if election.mode == "none" or _is_shadow(settings):
        return None
    rules = _lease_rules(lease_name(settings))
    return _role("Role", {"name": "slackwater-leader-election", "namespace": election.resource_namespace}, rules)


def _lease_rules(name: str) -> tuple[dict[str, Any], ...]:
    return _created("coordination.k8s.io", "leases", "get watch update", [name])


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
    if uses_karpenter(settings):
        yield from _KARPENTER


def _role(kind: str, metadata: dict[str, str], rules: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": [dict(rule) for rule in rules]}


def binding(role: dict[str, Any], subject: dict[str, str]) -> dict[str, Any]:
    """The ClusterRoleBinding or RoleBinding that gives the role to `subject`, an entry of its `subjects`."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": _GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [subject],
    }


def user(name: str) -> dict[str, str]:
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


def manifest(settings: Settings | None = None) -> str:
    """The roles, the ServiceAccount and the bindings as one YAML file for `kubectl apply -f`."""
    account = {"kind": "ServiceAccount", "name": "slackwater", "namespace": "kube-system"}
    new = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "slackwater", "namespace": "kube-system"}}
    first, *others = rights(settings, account)
    return "---\n".join(yaml.safe_dump(item, sort_keys=False) for item in (first, new, *others))


def rights(settings: Settings | None, subject: dict[str, str]) -> list[dict[str, Any]]:
    """All roles for the settings, or for the default settings; each role is followed by its binding to `subject`."""
    makers = (lease_role, record_role, karpenter_role, status_role)
    optional = () if settings is None else [make(settings) for make in makers]
    roles = (cluster_role(settings), pause_role(), history_role(settings), *optional)
    return [item for role in roles if role is not None for item in (role, binding(role, subject))]


def collection_path(item: Mapping[str, Any]) -> str:
    """The path to which a role or binding is posted."""
    plural, namespace = f"{item['kind'].lower()}s", item["metadata"].get("namespace")
    return f"/apis/{item['apiVersion']}/{'' if namespace is None else f'namespaces/{namespace}/'}{plural}"
