"""Builds the command line of each component, and reads the binds in the API server's audit log.

In: paths and ports. Out: a `Launch`. No feature gate is set. A comment at each flag that differs from a usual cluster says why.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.sandbox.free_ports import LOOPBACK
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.component import Launch
from tests.support.controlplane.layout import Layout
from tests.support.controlplane.pki import Pki

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
#: Objects that kube-apiserver creates after its start, and that our components and tests need.
_DEFAULT_OBJECTS: Final = (
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    f"{_RBAC}/clusterroles/system:kube-scheduler",
    f"{_RBAC}/clusterrolebindings/system:kube-scheduler",
    f"{_RBAC}/clusterrolebindings/system:volume-scheduler",
    f"{_RBAC}/namespaces/kube-system/rolebindings/system::leader-locking-kube-scheduler",
    f"{_RBAC}/namespaces/kube-system/rolebindings/system::extension-apiserver-authentication-reader",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """What all command lines need: the paths of programs, files and certificates."""

    binaries: Binaries
    layout: Layout
    pki: Pki

    def https(self, port: int) -> list[str]:
        """The flags with which a component serves on loopback with our certificate."""
        return [
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={self.pki.serving_cert}",
            f"--tls-private-key-file={self.pki.serving_key}",
        ]

    def clients(self, account: str) -> list[str]:
        """The flags with which a component lets the API server authenticate its callers."""
        kubeconfig = self.layout.kubeconfig(account)
        return [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]


def etcd(place: LaunchContext, *, port: int, peer_port: int) -> Launch:
    url, peer_url = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    return Launch(
        name="etcd",
        program=place.binaries.of("etcd"),
        url=url,
        ready_paths=("/readyz",),
        arguments=(
            "--name=slackwater",
            f"--data-dir={place.layout.etcd_data}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=slackwater={peer_url}",
            # Survives a killed process, not a killed machine; several times faster on slow disks.
            "--unsafe-no-fsync",
            # 150,000 pods with their history outgrow the default of 2 GiB.
            f"--quota-backend-bytes={8 * 1024**3}",
            "--log-level=warn",
        ),
    )


def kube_apiserver(place: LaunchContext, *, port: int, etcd_url: str, controllers: bool) -> Launch:
    disabled = ["ServiceAccount"]  # nothing creates the default service accounts that it requires
    if not controllers:
        # This plug-in taints new nodes as not ready, and only the controller manager removes the taint.
        disabled.append("TaintNodesByCondition")
    issuer = f"https://{LOOPBACK}:{port}"
    return Launch(
        name="kube-apiserver",
        program=place.binaries.of("kube-apiserver"),
        url=issuer,
        ready_paths=("/readyz", *_DEFAULT_OBJECTS),
        arguments=(
            *place.https(port),
            f"--etcd-servers={etcd_url}",
            f"--client-ca-file={place.pki.ca_file}",
            # No client has such a certificate. Without the flags, components log complaints again and again.
            f"--requestheader-client-ca-file={place.pki.ca_file}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--token-auth-file={place.layout.tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={issuer}",
            f"--service-account-key-file={place.pki.account_public_key}",
            f"--service-account-signing-key-file={place.pki.account_key}",
            f"--disable-admission-plugins={','.join(disabled)}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # A loopback address is not allowed as an endpoint of the service `kubernetes`, which is not used here.
            "--endpoint-reconciler-type=none",
            # The shares of this limiter depend on the load, so measurements would not be repeatable.
            "--enable-priority-and-fairness=false",
            # Without that limiter, requests above these limits (by default 400, and 200 for writes) would be refused with 429.
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            f"--audit-policy-file={place.layout.audit_policy}",
            f"--audit-log-path={place.layout.audit_log}",
            "--audit-log-maxsize=100000",  # MB; a rotated file would hide requests from tests
            "--allow-privileged=true",
        ),
    )


def kube_controller_manager(place: LaunchContext, *, port: int) -> Launch:
    return Launch(
        name="kube-controller-manager",
        program=place.binaries.of("kube-controller-manager"),
        url=f"https://{LOOPBACK}:{port}",
        ready_paths=("/healthz",),
        arguments=(
            *place.https(port),
            *place.clients("controller-manager"),
            f"--kubeconfig={place.layout.kubeconfig('controller-manager')}",
            f"--root-ca-file={place.pki.ca_file}",
            f"--service-account-private-key-file={place.pki.account_key}",
            "--leader-elect=false",
            # The default of 20 requests a second makes a Deployment of 1,000 pods take a minute.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ),
    )


def kwok(place: LaunchContext, *, port: int) -> Launch:
    address = f"{LOOPBACK}:{port}"
    return Launch(
        name="kwok",
        program=place.binaries.of("kwok"),
        url=f"http://{address}",
        ready_paths=("/readyz",),
        arguments=(
            f"--kubeconfig={place.layout.kubeconfig('kwok')}",
            f"--config={place.binaries.kwok_stages}",
            f"--server-address={address}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
        ),
    )


def kube_scheduler(place: LaunchContext, *, name: str, port: int, config: Path, leader_elect: bool) -> Launch:
    return Launch(
        name=name,
        program=place.binaries.of("kube-scheduler"),
        url=f"https://{LOOPBACK}:{port}",
        ready_paths=("/readyz",),
        arguments=(
            *place.https(port),
            *place.clients("scheduler"),
            f"--config={config}",
            f"--leader-elect={str(leader_elect).lower()}",
        ),
    )


#: The rules of the audit policy: logs writes, without their bodies. Writes of Leases and Events are not logged, because they
#: would be most of the file.
AUDIT_RULES: Final[tuple[dict[str, Any], ...]] = (
    {"level": "None", "verbs": ["get", "list", "watch"]},
    {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
    {"level": "None", "resources": [{"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")]},
    {"level": "None", "users": ["system:apiserver"]},
    {"level": "Metadata"},
)


def audit_policy(rules: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [*rules]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    """One request to bind a pod, and the API server's answer."""

    user: str
    namespace: str
    pod: str
    status: int  #: HTTP status; 201 if it bound the pod


def bind_requests(log: Path) -> Iterator[BindRequest]:
    """All bind requests in the audit log, the oldest first. A last line that is still incomplete is left out."""
    with log.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            request = _bind_request(json.loads(line))
            if request is not None:
                yield request


def _bind_request(event: dict[str, Any]) -> BindRequest | None:
    target = event.get("objectRef") or {}
    if event["verb"] != "create" or event["stage"] != "ResponseComplete":
        return None
    if (target.get("resource"), target.get("subresource")) != ("pods", "binding"):
        return None
    return BindRequest(
        user=event["user"]["username"],
        namespace=target["namespace"],
        pod=target["name"],
        status=event["responseStatus"]["code"],
    )
