"""Finds the running service in a cluster, for commands that ask it: its Pods, and the port of the ops listener of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

from slackwater.adapters.api_calls import ApiPort, Read
from slackwater.adapters.kube.errors import refused
from slackwater.app.settings import Settings
from slackwater.model.ids import PodKey
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

OPS_PORT: Final = 10298
#: The name of the ops listener's port in our Pods.
_PORT_NAME: Final = "ops"
_SECONDS: Final = 10.0
#: The Service of our Pods, and its port of the ops listener, as the API server's services/proxy names them; without TLS first.
PROXIED: Final = tuple(f"{scheme}:slackwater:{_PORT_NAME}" for scheme in ("http", "https"))
#: Through it the API server passes requests on to the ops listener of a replica.
PROXY_PATH: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/services/{{}}/proxy"
#: What the chart adds to the name in the label of a shadow, so that agents do not find it.
SHADOW_SUFFIX: Final = "-shadow"


def pod_name_of(settings: Settings) -> str:
    """The value of the label by which agents and commands find the Pods of a service with these settings."""
    return settings.scheduler_name + (SHADOW_SUFFIX if settings.mode == "shadow" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPod:
    """A running Pod of the service, and the port of its ops listener. `tls`: the listener speaks TLS."""

    pod: PodKey
    port: int
    tls: bool
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The Pods of the service: those that run, ready ones first, and the names and phases of all others."""

    running: tuple[ReplicaPod, ...]
    others: tuple[str, ...]


def looked_for(scheduler_name: str) -> str:
    """Describes the Pods that `find_replicas` looks for, for messages to people."""
    return f"Pods with the label {SCHEDULER_NAME_LABEL}={scheduler_name} in namespace {SCHEDULER_NAMESPACE}"


async def find_replicas(client: ApiPort, scheduler_name: str | None) -> Replicas:
    """Finds the Pods of the service that has this scheduler name; None: of all services. Raises `KubeError`."""
    path = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/pods"
    params = {"labelSelector": SCHEDULER_NAME_LABEL + ("" if scheduler_name is None else f"={scheduler_name}")}
    answer = await client.send(Read(path, params=params, timeout_seconds=_SECONDS))
    if answer.status != HTTPStatus.OK:
        raise refused(f"list {path}", answer)
    running, others = [], []
    for pod in msgspec.json.decode(answer.body)["items"]:
        meta, status = pod["metadata"], pod.get("status") or {}
        if status.get("phase") == "Running" and not meta.get("deletionTimestamp"):
            running.append(_replica(pod))
        else:
            others.append(f"{meta['name']} ({'ending' if meta.get('deletionTimestamp') else status.get('phase', 'unknown')})")
    return Replicas(running=tuple(sorted(running, key=lambda each: not each.ready)), others=tuple(others))


def _replica(pod: dict[str, Any]) -> ReplicaPod:
    key = PodKey(pod["metadata"]["namespace"], pod["metadata"]["name"])
    ready = is_ready(pod)
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == _PORT_NAME:
                # The chart probes the ops listener, so that speaks TLS if the probe does.
                probe = (container.get("readinessProbe") or {}).get("httpGet") or {}
                return ReplicaPod(pod=key, port=port["containerPort"], tls=probe.get("scheme") == "HTTPS", ready=ready)
    return ReplicaPod(pod=key, port=OPS_PORT, tls=False, ready=ready)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """True if the Pod has the condition Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
