"""Checks of the API server and its nodes: versions, flags, feature gates, and the APIs that are served.

The flags are read at /flagz, which API servers show since Kubernetes 1.36 unless the gate ComponentFlagz is off; the gates at
/metrics. The flags and gates of kube-scheduler and of kubelets are not checked, because the API server does not show them.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from slackwater.adapters.api_calls import ApiPort, Read
from slackwater.adapters.kube.errors import KubeError, refused
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app.doctor import Check, named, ok, problem, unknown, unseen, warning
from slackwater.app.settings import Settings
from slackwater.model.kubernetes_rules import GATES, SUPPORTED, KubernetesVersion

_SECONDS: Final = 30.0
#: The versions of the structured /flagz, the newest first; its text is not meant to be parsed.
_FLAGZ: Final = ("v1beta1", "v1alpha1")
_FEATURE: Final = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",[^}]*\} ([01])', re.MULTILINE)
_SHOWN_FLAGS: Final = ("authorization-mode", "max-requests-inflight", "max-mutating-requests-inflight", "event-ttl")
#: Admission plug-ins that are on by default, and what is missing without them.
_ADMISSION: Final[Mapping[str, str]] = {
    "Priority": "pods have no priority, so nothing is preempted by it, and our own Pod's class is not resolved",
    "MutatingAdmissionPolicy": "the gate of deploy/gate is not put on pods",
    "DefaultTolerationSeconds": "pods leave nodes that are not ready at once",
}
#: Subresources of pods that Slackwater writes.
_PARTS: Final = ("pods/binding", "pods/status", "pods/eviction")
_GROUPS: Final = {"policy": "v1", "events.k8s.io": "v1", "coordination.k8s.io": "v1"}
_OPTIONAL: Final = {
    "resource.k8s.io": "devices (DRA)",
    "vm.neon.tech": "NeonVM",
    "cluster.x-k8s.io": "Cluster API",
    "autoscaling.x-k8s.io": "CapacityBuffer",
}
#: The first kubelets that resize pods in place without a feature gate.
_RESIZING_MINOR: Final = 33


def version(version_info: Mapping[str, Any]) -> Check:
    """Checks the API server's version: whether Slackwater was compared with it, and whether it emulates an older one."""
    seen = str(version_info.get("gitVersion", "unknown"))
    try:
        found = KubernetesVersion.parse(seen)
    except ValueError:
        return _compare_first(seen, "not a version of Kubernetes")
    if found.note:
        return _compare_first(seen, found.note)
    emulated = str(version_info.get("emulationMinor", found.minor))
    if emulated != str(found.minor):
        advice = f"if kube-scheduler emulates it too, set scheduler.version to 1.{emulated}"
        return warning("Kubernetes", f"{seen}, which behaves as 1.{emulated}", advice)
    return ok("Kubernetes", seen)


def _compare_first(seen: str, note: str) -> Check:
    advice = f"{note}; compared are {', '.join(SUPPORTED)}: compare with `simulate` first"
    return warning("Kubernetes", seen, advice)


async def flags(client: ApiPort) -> Check:
    """Checks the flags of the API server that answers: authorization modes, watch cache, admission plug-ins."""
    name = "API server's flags"
    for api in _FLAGZ:
        accept = f"application/json;as=Flagz;g=config.k8s.io;v={api}"
        answer = await client.send(Read("/flagz", accept=accept, timeout_seconds=_SECONDS))
        if answer.status == HTTPStatus.OK:
            try:
                return _flags(name, msgspec.json.decode(answer.body)["flags"])
            except (msgspec.DecodeError, KeyError, TypeError):
                continue  # the text for people, of older servers
        if answer.status == HTTPStatus.FORBIDDEN:
            error = refused("get /flagz", answer)
            return unseen(name, error, "ask somebody who may get /flagz; no role but cluster-admin has it by default")
        if answer.status != HTTPStatus.NOT_ACCEPTABLE:
            break
    why = "the API server does not answer /flagz (feature gate ComponentFlagz, on since 1.36)"
    return unknown(name, why, "look at the flags of kube-apiserver by hand")


def _flags(name: str, found: Mapping[str, str]) -> Check:
    seen = ", ".join(f"{flag} {found[flag]}" for flag in _SHOWN_FLAGS if found.get(flag))
    wrong, advice = [], []
    modes = _words(found.get("authorization-mode", ""))
    if modes and "RBAC" not in modes and not found.get("authorization-config"):
        wrong.append("RBAC is not among the authorization modes")
        advice.append("give the service's account its rights in another way: the roles have no effect")
    if found.get("watch-cache") == "false":
        wrong.append("watch-cache is false")
        advice.append("turn it on: each list and watch reads etcd")
    for plugin in sorted(_ADMISSION.keys() & _words(found.get("disable-admission-plugins", ""))):
        wrong.append(f"admission plug-in {plugin} is off")
        advice.append(f"turn it on, else {_ADMISSION[plugin]}")
    if not wrong:
        return ok(name, seen or "none of those that matter is set")
    return Check(name=name, state="warning", seen=f"{'; '.join(wrong)} ({seen})", advice="; ".join(advice))


def _words(flag: str) -> set[str]:
    """A list as Go prints it: "[A,B]" or "[A B]"."""
    return set(filter(None, re.split(r"[\s,]+", flag.strip("[]"))))


async def feature_gates(client: ApiPort, settings: Settings, git_version: str) -> Check:
    """Checks the gates that Slackwater's rules depend on: does the API server have the values that these rules assume?"""
    name = "feature gates"
    answer = await client.send(Read("/metrics", accept="*/*", timeout_seconds=_SECONDS))
    if answer.status == HTTPStatus.FORBIDDEN:
        error = refused("get /metrics", answer)
        return unseen(name, error, "ask somebody who may get /metrics, as the ClusterRole `system:monitoring` allows")
    text = answer.body.decode(errors="replace") if answer.status == HTTPStatus.OK else ""
    found = {gate: value == "1" for gate, value in _FEATURE.findall(text)}
    if not found:
        why = "/metrics of the API server names no feature gates"
        return unknown(name, why, "look at kube-apiserver's flag --feature-gates by hand")
    try:
        followed = settings.scheduler.of(KubernetesVersion.parse(git_version))
    except ValueError as error:
        return problem(name, str(error), "correct scheduler.featureGates")
    known = sorted(found.keys() & GATES.keys())
    differing = [gate for gate in known if found[gate] != followed.enabled(gate)]
    if not differing:
        return ok(name, f"the {len(known)} that matter are at the API server as the rules for {followed} assume")
    seen = "; ".join(
        f"{gate} is {_on(found[gate])} at the API server, and the rules assume {_on(not found[gate])}" for gate in differing
    )
    gates = ",".join(f"{gate}={str(found[gate]).lower()}" for gate in differing)
    advice = f'if kube-scheduler has them so too, set scheduler.featureGates to "{gates}"'
    return warning(name, seen, advice)


def _on(value: bool) -> str:
    return "on" if value else "off"


async def served_apis(objects: ApiObjects, settings: Settings) -> AsyncIterator[Check]:
    """Checks which APIs are served: those that the service needs, and the optional ones that single features need."""
    core = await objects.get("/api/v1") or {"resources": []}
    parts = {each["name"] for each in core["resources"]}
    missing = [part for part in _PARTS if part not in parts]
    missing += [f"{group}/{api}" for group, api in _GROUPS.items() if await objects.get(f"/apis/{group}/{api}") is None]
    if missing:
        advice = "ask the API server's operator: see kube-apiserver's flag --runtime-config"
        yield problem("APIs", f"not served: {named(missing)}", advice)
    else:
        yield ok("APIs", f"{', '.join(_PARTS)}, {', '.join(_GROUPS)} are served")
    there = {name: await objects.get(f"/apis/{group}") is not None for group, name in _OPTIONAL.items()}
    all_parts = {"pods/resize": "pods/resize" in parts, **there, "gate policies": await _policies(objects)}
    seen = ", ".join(f"{name}: {'yes' if found else 'no'}" for name, found in all_parts.items())
    provider = settings.autoscaler.providers.clusterapi if settings.autoscaler.enabled else None
    if provider is not None and provider.kubeconfig is None and not there["Cluster API"]:
        advice = "install Cluster API, or name its management cluster in autoscaler.providers.clusterapi.kubeconfig"
        yield problem("optional types", seen, advice)
    else:
        yield ok("optional types", seen)


async def _policies(objects: ApiObjects) -> bool:
    """True if mutating admission policies are served in the version that deploy/gate uses."""
    found = await objects.get("/apis/admissionregistration.k8s.io/v1")
    return found is not None and any(each["name"] == "mutatingadmissionpolicies" for each in found["resources"])


async def component_versions(objects: ApiObjects, git_version: str, schedulers: Iterable[str]) -> Check:
    """Compares the versions of kubelets and kube-schedulers with the API server's.

    `schedulers` are the versions of the kube-schedulers, taken from their images.
    """
    name = "component versions"
    try:
        kubelets = Counter([_kubelet(node) async for node in objects.each("/api/v1/nodes")])
    except KubeError as error:
        return unseen(name, error, "ask for the right to list nodes")
    seen = [f"API server {git_version}", f"kubelets {_counted(kubelets)}"]
    server, images = _minor(git_version), sorted(set(schedulers))
    seen.append(
        f"kube-scheduler {', '.join(images)}" if images else "kube-scheduler cannot be seen: no Pod of it in kube-system"
    )
    newer = [tag for tag in images if server is not None and (minor := _minor(tag)) is not None and minor > server]
    if newer:
        advice = "use the version of the API server, or one minor version older"
        return problem(name, f"kube-scheduler {named(newer)} is newer than the API server ({'; '.join(seen)})", advice)
    old = [text for text in kubelets if (minor := _minor(text)) is not None and minor < _RESIZING_MINOR]
    if old:
        advice = f"upgrade them to 1.{_RESIZING_MINOR} before plain pods are to grow in place"
        return warning(name, "; ".join(seen), advice)
    return ok(name, "; ".join(seen))


def _kubelet(node: Mapping[str, Any]) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "unknown")


def _counted(versions: Counter[str]) -> str:
    return named(f"{text} ({count} node{'s' if count > 1 else ''})" for text, count in versions.most_common()) or "none"


def _minor(text: str) -> int | None:
    try:
        return KubernetesVersion.parse(text).minor
    except ValueError:
        return None
