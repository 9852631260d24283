"""Runs all checks of `slackwater doctor` in their order.

Here are those of the installed service (its configuration, the rights of its account and of the user, its Pods, and pauses), of
others that decide about nodes or pods (Cluster Autoscaler, Karpenter, other instances of Slackwater), and of clocks. Others are
recognized by Leases, Cluster Autoscaler's status ConfigMap, and Karpenter's NodePools. A Lease that was renewed in the future
shows a clock that is ahead.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import msgspec

from slackwater.adapters.api_calls import ApiPort, Read
from slackwater.adapters.kube.errors import KubeError, StatusError, refused
from slackwater.adapters.kube.objects import ApiObjects, Json, seconds_since
from slackwater.app import pauses, rbac
from slackwater.app.cleanup import lease_age, status_age
from slackwater.app.clouds import uses_karpenter
from slackwater.app.doctor import Check, agents, api_server, named, ok, problem, unseen, warning
from slackwater.app.doctor.consolidation import consolidation
from slackwater.app.doctor.handed_over import pods_handed_over
from slackwater.app.doctor.left_out import groups_left_out
from slackwater.app.doctor.ownership import groups_of_others
from slackwater.app.leader_election import lease_name
from slackwater.app.running_service import SHADOW_SUFFIX, is_ready, pod_name_of
from slackwater.app.settings import Settings, SettingsError, loads
from slackwater.app.settings.autoscaling import Providers
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

_SYSTEM: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}"
_ACCOUNT: Final = "slackwater"
_AUTH: Final = "/apis/authorization.k8s.io/v1"
#: The service's configuration where the chart, or deploy/, installed it.
_CONFIG_MAP: Final = "slackwater"
_CONFIG_KEY: Final = "slackwater.yaml"
#: The greatest difference of clocks that is no problem. Leases, timers of drains and tokens are compared between clocks.
CLOCK_SECONDS: Final = 5.0
_KINDS: Final = {"cluster-autoscaler": "Cluster Autoscaler", "karpenter": "Karpenter"}
#: The label of our Pods, whatever their scheduler's name is.
_APP: Final = "app.kubernetes.io/name=slackwater"
_NAME: Final = "other autoscalers"


async def examine(
    client: ApiPort, settings: Settings | None, clock: Callable[[], datetime], *, probe: agents.Probe | None = None
) -> AsyncIterator[Check]:
    """Yields the results of all checks, one after another.

    If `settings` is None, the settings of the installed service are used, or the defaults if there are none. Raises `KubeError`
    if the API server cannot be asked at all.
    """
    objects, before = ApiObjects(client), clock()
    answer = await client.send(Read("/version", timeout_seconds=10.0))
    if answer.status != HTTPStatus.OK:
        raise refused("get /version", answer)
    after, version = clock(), msgspec.json.decode(answer.body)
    yield api_server.version(version)
    server_time = _date(answer.headers.get("Date", ""))
    yield _clock(server_time, before, after)
    now = server_time or after  # ages of Leases are by the API server's clock
    yield await own_rights(objects)
    if settings is None:
        settings, configuration = await installed_settings(objects)
        yield configuration
    async for check in _of_the_cluster(client, objects, settings, str(version.get("gitVersion", "")), now):
        yield check
    yield withheld(settings)
    if settings.shadow.except_namespaces or settings.shadow.except_scheduler_names:
        yield await pods_handed_over(client, settings)
    pods = await service_pods(objects, settings)
    async for check in account_and_pods(objects, settings, pods):
        yield check
    if settings.mode == "shadow":
        yield ok("agents", "a shadow answers none, and they do not find it")
        yield await running_pauses(client)
        return
    async for check in agents.agents(objects, settings, [] if isinstance(pods, Check) else pods, probe, now):
        yield check
    yield await running_pauses(client)
    if settings.autoscaler.enabled:
        yield await consolidation(client, settings)


async def _of_the_cluster(
    client: ApiPort, objects: ApiObjects, settings: Settings, git_version: str, now: datetime
) -> AsyncIterator[Check]:
    yield await api_server.flags(client)
    yield await api_server.feature_gates(client, settings, git_version)
    async for check in api_server.served_apis(objects, settings):
        yield check
    yield await api_server.component_versions(objects, git_version, await _scheduler_images(objects))
    leases = await leases_of(objects)
    if not isinstance(leases, KubeError):
        yield clocks_ahead(leases, now)
    async for check in others(objects, settings, leases, now):
        yield check
    if settings.autoscaler.enabled:
        yield await groups_of_others(client, settings, now)
        yield await groups_left_out(client, settings, now)
    yield await instances(objects, settings)


def _date(text: str) -> datetime | None:
    """Parses the value of a Date header, which has whole seconds; None if it is no date."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, TypeError):
        return None


def _clock(server_time: datetime | None, before: datetime, after: datetime) -> Check:
    """Checks how far our clock is from the API server's, which answered between `before` and `after`."""
    if server_time is None:
        return warning("clock", "the API server sent no date", "compare the clocks by hand")
    apart = max(0.0, (server_time - after).total_seconds(), (before - server_time).total_seconds() - 1)
    seen = f"{apart:.0f} s from the API server's"
    if apart <= CLOCK_SECONDS:
        return ok("clock", seen)
    return problem("clock", seen, "synchronise the clocks: Leases and removals compare them")


async def _scheduler_images(objects: ApiObjects) -> list[str]:
    """The image tags of the kube-scheduler containers in kube-system; none if Pods cannot be listed."""
    try:
        pods = [pod async for pod in objects.each(f"{_SYSTEM}/pods")]
    except KubeError:
        return []
    containers = [each for pod in pods for each in (pod.get("spec") or {}).get("containers") or ()]
    images = [str(each.get("image", "")) for each in containers if each.get("name") == "kube-scheduler"]
    return [image.partition("@")[0].rpartition(":")[2] for image in images]


# --- the service -----------------------------------------------------------------------------------------------------------


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


def withheld(settings: Settings) -> Check:
    """What the service decides and does not do."""
    name, said = "withheld", settings.shadow
    if settings.mode == "shadow":
        return ok(name, "everything: mode is shadow")
    groups = {group.name for group in settings.autoscaler.node_groups}
    own = settings.autoscaler.providers == Providers()
    if own and (unknown := sorted(set(said.groups) - groups)):
        return problem(
            name, f"shadow.groups names {named(unknown)}, which autoscaler.nodeGroups does not", "name groups that are there"
        )
    parts = (*said.capabilities, *(f"group {group}" for group in said.groups))
    if limits := [*said.except_namespaces, *said.except_scheduler_names]:
        parts = (*parts, f"all pods but those of {named(limits)}")
    return ok(name, f"{named(parts)}: decided and shown, not done" if parts else "nothing")


async def service_pods(objects: ApiObjects, settings: Settings) -> list[Json] | Check:
    """The Pods that agents and commands take for the service, or why they cannot be seen."""
    try:
        labels = f"{SCHEDULER_NAME_LABEL}={pod_name_of(settings)}"
        return [pod async for pod in objects.each(f"{_SYSTEM}/pods", labels=labels)]
    except KubeError as error:
        return unseen("installation", error, f"ask somebody who may list pods in {SCHEDULER_NAMESPACE}")


def _pods(pods: Sequence[Json], settings: Settings) -> Check:
    ready = [pod for pod in pods if is_ready(pod)]
    label = f"{SCHEDULER_NAME_LABEL}={pod_name_of(settings)}"
    seen = f"{len(ready)} of {len(pods)} Pods with the label {label} are ready"
    if ready and len(ready) == len(pods):
        return ok("installation", seen)
    advice = f"kubectl -n {SCHEDULER_NAMESPACE} describe pod -l {label}"
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


# --- other autoscalers, and clocks -----------------------------------------------------------------------------------------


async def leases_of(objects: ApiObjects) -> list[Json] | KubeError:
    """All Leases, or why they cannot be read. Raises `KubeError` if the API server fails."""
    try:
        return [lease async for lease in objects.each("/apis/coordination.k8s.io/v1/leases")]
    except StatusError as error:
        if error.code != HTTPStatus.FORBIDDEN:
            raise
        return error


def clocks_ahead(leases: Sequence[Json], server_now: datetime) -> Check:
    """Checks for holders of Leases whose clock is ahead of the API server's.

    A clock that is behind cannot be recognized: its Lease looks like one that nobody renews.
    """
    name = "other clocks"
    ahead = [
        (-age, str(lease["metadata"]["name"]))
        for lease in leases
        if (age := seconds_since((lease.get("spec") or {}).get("renewTime"), server_now)) < -CLOCK_SECONDS
    ]
    if not ahead:
        return ok(name, f"none of {len(leases)} Leases (nodes, controllers) was renewed in the future")
    seen = f"ahead of the API server: {named(f'{lease} by {seconds:.0f} s' for seconds, lease in sorted(ahead, reverse=True))}"
    return problem(name, seen, "synchronise the clocks there: Leases and removals compare them")


async def others(
    objects: ApiObjects, settings: Settings, leases: list[Json] | KubeError, now: datetime
) -> AsyncIterator[Check]:
    """One check for each other autoscaler that is active, or one that says that there is none."""
    if isinstance(leases, KubeError):
        yield unseen(_NAME, leases, "ask somebody who may list Leases, or look for Cluster Autoscaler and Karpenter by hand")
        return
    found = {}
    for lease in leases:
        name, namespace = str(lease["metadata"]["name"]), str(lease["metadata"].get("namespace", ""))
        kind = next((kind for part, kind in _KINDS.items() if part in name), None)
        if kind and name != lease_name(settings) and lease_age(lease, now) is not None:
            found[kind] = f"runs (Lease {namespace}/{name})"
    try:
        if (
            "Cluster Autoscaler" not in found
            and await status_age(objects, now, settings.autoscaler.cluster_autoscaler_status) is not None
        ):
            found["Cluster Autoscaler"] = "writes its status ConfigMap"
        if "Karpenter" not in found and (count := await _node_pools(objects)):
            found["Karpenter"] = f"has {count} NodePools, and may run outside of the cluster"
    except KubeError as error:
        yield unseen(_NAME, error, "look for Cluster Autoscaler's status ConfigMap and Karpenter's NodePools by hand")
    for name, what in found.items():
        serves = name == "Karpenter" and uses_karpenter(settings)
        yield ok(_NAME, f"{name} {what}; the provider karpenter needs it") if serves else _beside(settings, f"{name} {what}")
    if not found:
        yield ok(_NAME, "none holds a Lease, writes a status or has NodePools")


def _beside(settings: Settings, other: str) -> Check:
    """The check for another autoscaler."""
    if settings.mode == "shadow":
        return ok(_NAME, f"{other}; this service is a shadow beside it, so they do not conflict")
    if settings.autoscaler.enabled:
        advice = "let one of them look after a group: stop it, or see below which groups are left to it"
        return problem(_NAME, f"{other}, and autoscaler.enabled is true", advice)
    return ok(_NAME, f"{other}; autoscaler.enabled is false, so they do not conflict")


async def _node_pools(objects: ApiObjects) -> int:
    group = await objects.get("/apis/karpenter.sh")
    if group is None:
        return 0
    path = f"/apis/{group['preferredVersion']['groupVersion']}/nodepools"
    return len([pool async for pool in objects.each(path, metadata_only=True)])


async def instances(objects: ApiObjects, settings: Settings) -> Check:
    """Checks for Pods of other instances of Slackwater, and for more Pods of this one than its leader election allows."""
    name = "other instances"
    try:
        pods = [pod async for pod in objects.each("/api/v1/pods", labels=_APP)]
    except KubeError as error:
        return unseen(name, error, "ask somebody who may list pods in all namespaces")
    if settings.mode == "shadow":
        return ok(name, "a shadow disturbs none")
    pods = [pod for pod in pods if not _of(pod)[1].endswith(SHADOW_SUFFIX)]
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
    own = [pod for pod in live if _of(pod) == (SCHEDULER_NAMESPACE, settings.scheduler_name)]
    foreign = sorted({f"{_of(pod)[1] or 'no name'} in {_of(pod)[0]}" for pod in live if pod not in own})
    if len(own) > 1 and settings.leader_election.mode == "none":
        seen = f"{len(own)} Pods of schedulerName {settings.scheduler_name}, and leaderElection.mode is none"
        return problem(name, seen, "run one replica, or set leaderElection.mode: each of them decides")
    if not foreign:
        return ok(name, "none")
    if not settings.autoscaler.enabled:
        return ok(name, f"scheduler {named(foreign)}; autoscaler.enabled is false here")
    return warning(name, f"scheduler {named(foreign)}", "see that autoscaler.enabled is true in one of them only")


def _of(pod: Json) -> tuple[str, str]:
    """The namespace and the scheduler's name of a Pod of Slackwater."""
    meta = pod["metadata"]
    return str(meta.get("namespace", "")), str((meta.get("labels") or {}).get(SCHEDULER_NAME_LABEL, ""))
