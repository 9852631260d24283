"""Checks of the installed service: its configuration, the rights of its account and of the user, its Pods, and pauses."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.errors import KubeError, StatusError
from slackwater.adapters.kube.objects import ApiObjects, Json
from slackwater.app import pauses, rbac
from slackwater.app.doctor.check import Check, named, ok, problem, unseen, warning
from slackwater.app.running_service import is_ready
from slackwater.app.settings import Settings, SettingsError, loads
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

_ACCOUNT: Final = "slackwater"
_AUTH: Final = "/apis/authorization.k8s.io/v1"
_SYSTEM: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}"
#: The service's configuration where the chart, or deploy/, installed it.
_CONFIG_MAP: Final = "slackwater"
_CONFIG_KEY: Final = "slackwater.yaml"


async def own_rights(objects: ApiObjects) -> Check:
    """May the user list nodes and pods?"""
    denied = []
    for resource in ("nodes", "pods"):
        wanted = {"resourceAttributes": {"verb": "list", "resource": resource}}
        if not await _allowed(objects, "selfsubjectaccessreviews", wanted):
            denied.append(resource)
    if not denied:
        return ok("your rights", "you may list nodes and pods, as explain and simulate need")
    advice = "explain and simulate need them: ask for the ClusterRole `view`, and for listing nodes"
    return problem("your rights", f"you may not list {', '.join(denied)}", advice)


async def installed_settings(objects: ApiObjects) -> tuple[Settings, Check]:
    """Reads the configuration of the installed service. Returns it, or the defaults, with a check that names its source."""
    name, path = "configuration", f"{_SYSTEM}/configmaps/{_CONFIG_MAP}"
    place = f"ConfigMap {SCHEDULER_NAMESPACE}/{_CONFIG_MAP}"
    try:
        found = await objects.get(path)
    except KubeError as error:
        return Settings(), unseen(name, error, "name the service's configuration with --config; the defaults are assumed")
    text = ((found or {}).get("data") or {}).get(_CONFIG_KEY)
    if text is None:
        return Settings(), ok(name, f"the defaults: no --config, and no {place}")
    try:
        return loads(text), ok(name, f"{place}, as the service is installed")
    except SettingsError as error:
        advice = "slackwater config check F says what is wrong; the defaults are assumed"
        return Settings(), problem(name, f"{place}: {error}", advice)


async def account_and_pods(objects: ApiObjects, settings: Settings, pods: list[Json] | Check) -> AsyncIterator[Check]:
    """Whether the service is installed; if so, its rights and its Pods, which are `pods`."""
    try:
        installed = await objects.get(f"{_SYSTEM}/serviceaccounts/{_ACCOUNT}") is not None
    except KubeError as error:
        yield unseen("installation", error, f"ask somebody who may get serviceaccounts in {SCHEDULER_NAMESPACE}")
        return
    if not installed:
        advice = "helm install slackwater deploy/chart --namespace kube-system; explain and simulate need no installation"
        seen = f"no ServiceAccount {SCHEDULER_NAMESPACE}/{_ACCOUNT}: Slackwater is not installed here"
        yield warning("installation", seen, advice)
        return
    yield await _rights(objects, settings)
    yield pods if isinstance(pods, Check) else _pods(pods, settings)


async def _rights(objects: ApiObjects, settings: Settings) -> Check:
    """Checks whether the service's account has the rights that the configuration needs."""
    user = f"system:serviceaccount:{SCHEDULER_NAMESPACE}:{_ACCOUNT}"
    missing, asked = [], 0
    try:
        for attributes in _wanted(settings):
            asked += 1
            if not await _allowed(objects, "subjectaccessreviews", {"user": user, "resourceAttributes": attributes}):
                missing.append(f"{attributes['verb']} {attributes['resource']}")
    except StatusError as error:
        return unseen("the service's rights", error, "ask somebody who may create SubjectAccessReviews")
    if not missing:
        return ok("the service's rights", f"all {asked} that this configuration needs")
    seen = f"{len(missing)} of {asked} are missing: {named(missing)}"
    advice = "slackwater config rbac F | kubectl apply -f -"
    return problem("the service's rights", seen, advice)


def _wanted(settings: Settings) -> list[dict[str, str]]:
    """Lists the rights in the roles for these settings, each as the resource attributes of a SubjectAccessReview."""
    found = []
    for role in rbac.rights(settings, rbac.user(_ACCOUNT)):
        namespace = role["metadata"].get("namespace", "")
        for rule in role.get("rules", ()):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    name, _, part = resource.partition("/")
                    place = {"group": group, "resource": name, "subresource": part, "namespace": namespace}
                    place |= {"name": rule["resourceNames"][0]} if "resourceNames" in rule else {}
                    found += [{**place, "verb": verb} for verb in rule["verbs"]]
    return found


async def service_pods(objects: ApiObjects, settings: Settings) -> list[Json] | Check:
    """The Pods that agents and commands take for the service, or why they cannot be seen."""
    try:
        labels = f"{SCHEDULER_NAME_LABEL}={settings.scheduler_name}"
        return [pod async for pod in objects.each(f"{_SYSTEM}/pods", labels=labels)]
    except KubeError as error:
        return unseen("installation", error, f"ask somebody who may list pods in {SCHEDULER_NAMESPACE}")


def _pods(pods: Sequence[Json], settings: Settings) -> Check:
    ready = [pod for pod in pods if is_ready(pod)]
    seen = f"{len(ready)} of {len(pods)} Pods with the label {SCHEDULER_NAME_LABEL}={settings.scheduler_name} are ready"
    if ready and len(ready) == len(pods):
        return ok("installation", seen)
    advice = f"kubectl -n {SCHEDULER_NAMESPACE} describe pod -l {SCHEDULER_NAME_LABEL}={settings.scheduler_name}"
    return problem("installation", seen, advice)


async def running_pauses(client: ApiPort) -> Check:
    """The activities that a person has paused."""
    try:
        notes: Mapping[str, str] = await pauses.read(client)
    except KubeError as error:
        return unseen("pauses", error, f"ask somebody who may read ConfigMaps in {SCHEDULER_NAMESPACE}")
    if not notes:
        return ok("pauses", "nothing is paused")
    seen = "; ".join(f"{activity} is paused {note}" for activity, note in sorted(notes.items()))
    return warning("pauses", seen, "slackwater resume ACTIVITY, when the reason is over")


async def _allowed(objects: ApiObjects, review: str, spec: Json) -> bool:
    kind = "SelfSubjectAccessReview" if review.startswith("self") else "SubjectAccessReview"
    answer = await objects.create(f"{_AUTH}/{review}", {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
    return bool(answer["status"]["allowed"])
