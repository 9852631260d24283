"""Explains why a workload is short of pods: which are missing and why they are not made, which have no node, which are not
ready.

In: `WorkloadObjects`, and what is said of each pod that has no node. Out: a `WorkloadExplanation`. Pure. A missing pod has one
of three causes, looked for in this order: the workload wants none now (paused, suspended, waits for an ordinal); its controller
says why the API server refused the pod; admission, judged here on what was read, would refuse it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from slackwater.adapters.kube.auxiliary import decode_job
from slackwater.adapters.kube.decode import ENDED
from slackwater.app.offline.admission import SYSTEM_CLASSES, Admission, meant_text
from slackwater.app.offline.completed import completed_template
from slackwater.app.offline.limit_ranges import text_of
from slackwater.app.offline.objects import JOB, PRIORITY_CLASS, QUOTA, RUNTIME_CLASS, FoundObject
from slackwater.app.offline.quotas import Quota, usage_of
from slackwater.app.offline.workload_objects import ACCOUNT, EVENT, FAILED_CREATE, REPLICA_SET, Json, WorkloadObjects, owned_by
from slackwater.explain.findings import MOST_OBJECTS, Explanation, Finding, Remedy, of_reason
from slackwater.model.json_answer import JsonAnswer, written
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from slackwater.model.reasons import WaitReason
from slackwater.model.texts import count_text

#: The most pods about which is asked why they have no node.
MOST_ASKED: Final = 20
#: The most missing pods that are judged one by one. A workload may want two billion.
_MOST_JUDGED: Final = 10_000
_FAILED: Final = frozenset({"Failed", "FailureTarget"})
_OVER: Final = _FAILED | {"Complete", "SuccessCriteriaMet"}
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_MANIFEST: Final = (
    "it is a manifest, which no API server has seen; `slackwater simulate placement` places the pods it would have"
)
#: What the messages of the API server and of controllers contain, by the reason that they stand for; in this order, since
#: several may be judged here of one pod, and a larger quota does not help where a class is missing.
_MESSAGES: Final = (
    (WaitReason.LIMIT_RANGE, re.compile(r"(minimum|maximum) \S+ usage per |limit to request ratio per ")),
    (WaitReason.ACCOUNT_MISSING, re.compile(r"serviceaccount \"(?P<name>[^\"]+)\" not found")),
    (WaitReason.PRIORITY_UNKNOWN, re.compile(r"no PriorityClass with name (?P<name>\S+) was found")),
    (WaitReason.RUNTIME_UNKNOWN, re.compile(r"RuntimeClass \"(?P<name>[^\"]+)\" not found")),
    (WaitReason.QUOTA_EXCEEDED, re.compile(r"(exceeded|failed) quota: (?P<name>[^,\s:]+)")),
)
_KIND_OF: Final = {
    WaitReason.ACCOUNT_MISSING: ACCOUNT,
    WaitReason.PRIORITY_UNKNOWN: PRIORITY_CLASS,
    WaitReason.RUNTIME_UNKNOWN: RUNTIME_CLASS,
}
_OBJECT_OF: Final = {
    WaitReason.QUOTA_EXCEEDED: "resourcequota {}",
    WaitReason.ACCOUNT_MISSING: "serviceaccount {}",
    WaitReason.PRIORITY_UNKNOWN: "priorityclass {}",
    WaitReason.RUNTIME_UNKNOWN: "runtimeclass {}",
}


class WaitingPods(JsonAnswer, frozen=True, kw_only=True):
    """Pods that have no node for the same reasons."""

    count: int
    pods: Annotated[tuple[str, ...], Meta(description="Some of their names.")]
    explanation: Annotated[Explanation | None, Meta(description="Of the first of them; null if nobody could say.")] = written(
        None
    )
    problem: Annotated[str, Meta(description="Why nobody could say. Left out if somebody did.")] = ""


class WorkloadExplanation(JsonAnswer, frozen=True, kw_only=True):
    """Why a workload has not the pods that it wants."""

    object: str
    state: str
    reasons: tuple[Finding, ...] = written(())
    remedies: tuple[Remedy, ...] = written(())
    waiting: Annotated[tuple[WaitingPods, ...], Meta(description="The pods that have no node, by reason.")] = written(())
    facts: Annotated[Mapping[str, int], Meta(description="How many pods are wanted, there, ready, pending and missing.")] = (
        written({})
    )
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """The pods of a workload, neither ended nor leaving; and how many more it wants."""

    wanted: int
    there: Sequence[Json]
    missing: int

    @property
    def pending(self) -> list[Json]:
        return [pod for pod in self.there if not pod["spec"].get("nodeName")]

    @property
    def unready(self) -> list[Json]:
        return [pod for pod in self.there if pod["spec"].get("nodeName") and not _is_ready(pod)]


def pods_of(objects: WorkloadObjects) -> WorkloadPods:
    """Counts the workload's pods. Raises `ClusterError` if it does not exist."""
    workload = msgspec.json.decode(objects.found().raw)
    living = [pod for pod in objects.of("Pod") if _lives(pod)]
    if objects.kind != "Deployment":
        there = owned_by(living, objects.kind, {objects.key.name})
        wanted = _wanted(objects, workload)
        return WorkloadPods(wanted, there, max(wanted - len(there), 0))
    sets = owned_by(objects.of(REPLICA_SET), objects.kind, {objects.key.name})
    of_set = {each["metadata"]["name"]: owned_by(living, REPLICA_SET, {each["metadata"]["name"]}) for each in sets}
    there = [pod for pods in of_set.values() for pod in pods]
    # While a Deployment rolls out, the pods of its old ReplicaSet stand in for missing ones of the new.
    short = sum(max(_replicas(each) - len(of_set[each["metadata"]["name"]]), 0) for each in sets)
    wanted = _replicas(workload)
    return WorkloadPods(wanted, there, max(wanted - len(there), short))


def explain_workload(
    objects: WorkloadObjects, pods: WorkloadPods, waiting: Sequence[WaitingPods], notes: Iterable[str] = ()
) -> WorkloadExplanation:
    """The explanation. `waiting` is what is known of `pods.pending`."""
    workload = msgspec.json.decode(objects.found().raw)
    reasons, remedies = list[Finding](), list[Remedy]()
    at_rest = _at_rest(objects.kind, workload)
    if at_rest is not None:
        reasons.append(at_rest)
    elif pods.missing:
        reasons, remedies = _missing(objects, pods, workload)
    if pods.pending:
        reasons.append(
            of_reason(WaitReason.PODS_PENDING, objects=_named(pods.pending), detail=count_text(len(pods.pending), "pod"))
        )
    reasons += _unready(pods.unready)
    ready = sum(_is_ready(pod) for pod in pods.there)
    facts = {"wanted": pods.wanted, "pods": len(pods.there), "ready": ready}
    facts |= {"pending": len(pods.pending), "missing": pods.missing if at_rest is None else 0}
    return WorkloadExplanation(
        object=f"{objects.kind.lower()} {objects.key}",
        state=_state(facts, at_rest),
        reasons=tuple(reasons),
        remedies=tuple(remedies),
        waiting=tuple(waiting),
        facts=facts,
        notes=(*objects.notes, *notes),
    )


def asked_about(pending: Sequence[Json]) -> tuple[list[list[str]], int]:
    """The names of the pods about whose first is asked, those with equal specs together; and how many are not asked about."""
    alike: dict[str, list[str]] = {}
    for pod in pending:
        alike.setdefault(_similarity(pod["spec"]), []).append(pod["metadata"]["name"])
    groups = list(alike.values())
    return groups[:MOST_ASKED], sum(map(len, groups[MOST_ASKED:]))


# --- how many -------------------------------------------------------------------------------------------------------------


def _lives(pod: Json) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in ENDED


def _replicas(controller: Json) -> int:
    found = (controller.get("spec") or {}).get("replicas")
    return 1 if found is None else int(found)


def _wanted(objects: WorkloadObjects, workload: Json) -> int:
    match objects.kind:
        case "DaemonSet":
            return _wanted_by_nodes(workload)
        case "Job":
            return objects.found().decoded(decode_job).replicas
        case _:
            return _replicas(workload)


def _is_ready(pod: Json) -> bool:
    return any(each.get("type") == "Ready" for each in _conditions(pod))


def _conditions(item: Json) -> list[Json]:
    """The conditions that hold."""
    return [each for each in (item.get("status") or {}).get("conditions") or () if each.get("status") == "True"]


def _at_rest(kind: str, workload: Json) -> Finding | None:
    """Why the workload makes no pods now, and is not expected to."""
    spec = workload.get("spec") or {}
    if kind == "DaemonSet":
        return None if _wanted_by_nodes(workload) else _selects_nothing(workload)
    if kind != JOB:
        return None
    for condition in _conditions(workload):
        if condition.get("type") in _OVER:
            said = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            failed = condition.get("type") in _FAILED
            return of_reason(WaitReason.JOB_FAILED if failed else WaitReason.JOB_COMPLETE, detail=said)
    return of_reason(WaitReason.SUSPENDED) if spec.get("suspend") else None


def _wanted_by_nodes(daemon_set: Json) -> int:
    return int((daemon_set.get("status") or {}).get("desiredNumberScheduled") or 0)


def _selects_nothing(daemon_set: Json) -> Finding | None:
    """Why the DaemonSet's controller wants pods on no node; None if it has not looked yet."""
    if not (daemon_set.get("status") or {}).get("observedGeneration"):
        return None
    spec = daemon_set["spec"]["template"]["spec"]
    labels = tuple(f"label {key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items()))
    affinity = ("nodeAffinity",) if (spec.get("affinity") or {}).get("nodeAffinity") else ()
    return of_reason(WaitReason.SELECTS_NO_NODE, objects=labels + affinity)


_STATES: Final = {WaitReason.JOB_COMPLETE: "complete", WaitReason.JOB_FAILED: "failed", WaitReason.SELECTS_NO_NODE: "no nodes"}


def _state(facts: Mapping[str, int], at_rest: Finding | None) -> str:
    if at_rest is not None:
        return _STATES.get(WaitReason(at_rest.code), at_rest.code)
    if facts["missing"]:
        return "short of pods"
    if facts["pending"]:
        return "pending"
    return "complete" if facts["ready"] >= facts["pods"] else "not ready"


# --- why they are missing -------------------------------------------------------------------------------------------------


def _missing(objects: WorkloadObjects, pods: WorkloadPods, workload: Json) -> tuple[list[Finding], list[Remedy]]:
    if objects.kind == "Deployment" and (workload.get("spec") or {}).get("paused"):
        return [of_reason(WaitReason.PAUSED)], []
    if (before := _awaited(objects.kind, workload, pods)) is not None:
        return [of_reason(WaitReason.AWAITS_ORDINAL, objects=(f"pod {objects.key.namespace}/{before}",))], []
    message = _refused_by(objects) or _would_refuse(objects, workload, pods.missing)
    if message:
        finding = _of_message(message, objects)
        quota = finding.code == WaitReason.QUOTA_EXCEEDED
        return [finding], _raised_quotas(objects, workload, pods.missing) if quota else []
    if not objects.found().uid:
        return [of_reason(WaitReason.NOT_MADE, detail=_MANIFEST)], []
    manager = (workload.get("spec") or {}).get("managedBy")
    if manager not in (None, _JOB_CONTROLLER):
        return [of_reason(WaitReason.NOT_MADE, detail=f"{manager} manages the Job, not the Job controller")], []
    observed = (workload.get("status") or {}).get("observedGeneration", 0)
    behind = observed < (workload["metadata"].get("generation") or 0)
    return [of_reason(WaitReason.NOT_OBSERVED if behind else WaitReason.NOT_MADE)], []


def _awaited(kind: str, workload: Json, pods: WorkloadPods) -> str | None:
    """The pod that has to be ready before a StatefulSet makes its next one."""
    if kind != "StatefulSet" or (workload.get("spec") or {}).get("podManagementPolicy") == "Parallel":
        return None
    waiting = [pod["metadata"]["name"] for pod in pods.there if not _is_ready(pod)]
    return min(waiting, key=lambda name: (len(name), name), default=None)


def _refused_by(objects: WorkloadObjects) -> str:
    """The newest message of its controllers about a pod that was refused; "" without one."""
    makers = {objects.key.name} | {
        each["metadata"]["name"] for each in owned_by(objects.of(REPLICA_SET), objects.kind, {objects.key.name})
    }
    failures = [
        condition.get("message", "")
        for kind in ("Deployment", REPLICA_SET)
        for each in objects.of(kind)
        if each["metadata"]["name"] in makers
        for condition in (each.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
    ]
    events = [event for event in objects.of(EVENT) if _is_failure(event, makers)]
    events.sort(
        key=lambda event: str(
            (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
        )
    )
    messages = [str(event.get("message") or event.get("note") or "") for event in events]
    return next(filter(None, [*failures, *reversed(messages)]), "")


def _is_failure(event: Json, makers: set[str]) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return event.get("reason") == FAILED_CREATE and about.get("name") in makers


def _template(objects: WorkloadObjects, workload: Json) -> Json:
    found: Json = completed_template(workload, DEFAULT_VERSION)["spec"]["template"]["spec"]
    return found


def _would_refuse(objects: WorkloadObjects, workload: Json, missing: int) -> str:
    """Why admission would refuse a missing pod, judged here; "" if it would not as far as is known."""
    spec = _template(objects, workload)
    account = spec.get("serviceAccountName") or "default"
    known = {each["metadata"]["name"] for each in objects.of(ACCOUNT)}
    if (known or ACCOUNT in objects.listed) and account not in known:
        return f'serviceaccount "{account}" not found'
    return _judged(objects, workload, objects.by_kind, missing)


def _judged(objects: WorkloadObjects, workload: Json, by_kind: Mapping[str, Sequence[FoundObject]], missing: int) -> str:
    admission = Admission(by_kind, DEFAULT_VERSION, objects.listed, objects.where)
    few = range(min(missing, _MOST_JUDGED))
    admission.admitted(objects.title, objects.key.namespace, _template(objects, workload), few)
    return admission.refused[0].partition("would not be admitted: ")[2] if admission.refused else ""


def _of_message(message: str, objects: WorkloadObjects) -> Finding:
    """The finding for a refusal, in the API server's words."""
    for reason, pattern in _MESSAGES:
        if (found := pattern.search(message)) is not None:
            name = found.groupdict().get("name")
            named = () if name is None else (_OBJECT_OF[reason].format(name),)
            return of_reason(reason, objects=named, detail=_with_meant(reason, name, message, objects))
    return of_reason(WaitReason.PODS_REFUSED, detail=message)


def _with_meant(reason: WaitReason, name: str | None, message: str, objects: WorkloadObjects) -> str:
    """The message with the name that was likely meant in place of one that does not exist. Nothing is added to what admission
    says here, nor where it is not known which names there are."""
    kind = _KIND_OF.get(reason)
    if kind is None or name is None or "did you mean" in message or "known are" in message:
        return message
    if kind == ACCOUNT:
        known = [each["metadata"]["name"] for each in objects.of(ACCOUNT)]
    else:
        known = [item.name for item in objects.by_kind[kind]]
    if not known and kind not in objects.listed:
        return message
    return f"{message}{meant_text(name, [*known, *(SYSTEM_CLASSES if kind == PRIORITY_CLASS else ())])}"


def _raised_quotas(objects: WorkloadObjects, workload: Json, missing: int) -> list[Remedy]:
    """Raising every quota that is in the way to what the missing pods need, if they are all admitted then."""
    spec = _template(objects, workload)
    usage, words, raised = usage_of(spec), list[str](), list[FoundObject]()
    for item in objects.by_kind[QUOTA]:
        if item.namespace != objects.key.namespace:
            continue
        quota = Quota.of(item, ())
        needed = {key: quota.used.get(key, 0) + missing * usage[key] for key in usage.keys() & quota.hard.keys()}
        more = {key: amount for key, amount in needed.items() if quota.counts(spec) and amount > quota.hard[key]}
        for key, amount in sorted(more.items()):
            words.append(
                f"raise {key} of ResourceQuota {item.name} from {text_of(key, quota.hard[key])} to {text_of(key, amount)}"
            )
        raised.append(replace(quota, hard=quota.hard | more).object())
    if not words or _judged(objects, workload, {**objects.by_kind, QUOTA: raised}, missing):
        return []
    return [Remedy(change="; and ".join(words), changes=tuple(words))]


# --- pods that are there --------------------------------------------------------------------------------------------------


def _named(pods: Iterable[Json]) -> tuple[str, ...]:
    names = (f"pod {pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}" for pod in pods)
    return tuple(sorted(names)[:MOST_OBJECTS])


def _unready(pods: Sequence[Json]) -> Iterator[Finding]:
    """One finding for each cause that kubelets name."""
    by_cause: dict[str, list[Json]] = {}
    for pod in pods:
        by_cause.setdefault(_cause(pod), []).append(pod)
    for cause, those in sorted(by_cause.items()):
        detail = count_text(len(those), "pod") + (f": {cause}" if cause else "")
        yield of_reason(WaitReason.PODS_UNREADY, objects=_named(those), detail=detail)


def _cause(pod: Json) -> str:
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if reason := ((each.get("state") or {}).get("waiting") or {}).get("reason"):
            return str(reason)
    return ""


#: The beginning of the names of volumes that the API server makes up for each pod.
_MADE_UP: Final = "kube-api-access-"


def _similarity(spec: Json) -> str:
    """What decides where a pod may go, as text: its spec without the names that the API server makes up."""
    asks = {key: value for key, value in spec.items() if key not in {"hostname", "volumes"}}
    asks["volumes"] = [each for each in spec.get("volumes") or () if not str(each.get("name", "")).startswith(_MADE_UP)]
    for part in ("containers", "initContainers"):
        asks[part] = [{key: value for key, value in each.items() if key != "volumeMounts"} for each in spec.get(part) or ()]
    return msgspec.json.encode(asks, order="sorted").decode()


def asked(pending: Sequence[Json], explain: Callable[[str], Explanation | str]) -> tuple[list[WaitingPods], list[str]]:
    """Asks `explain` about pods by name, which answers with an explanation or says why there is none. Returns the pods by what
    was answered, and notes."""
    groups, left = asked_about(pending)
    found: dict[object, WaitingPods] = {}
    for names in groups:
        answer = explain(names[0])
        known = isinstance(answer, Explanation)
        key = _said(answer, names[0]) if isinstance(answer, Explanation) else answer
        before = found.get(key)
        pods = (*(() if before is None else before.pods), *names)[:MOST_OBJECTS]
        count = len(names) + (0 if before is None else before.count)
        first = answer if before is None else before.explanation or before.problem
        explanation = first if isinstance(first, Explanation) else None
        found[key] = WaitingPods(count=count, pods=pods, explanation=explanation, problem="" if known else str(first))
    notes = (
        [f"{count_text(left, 'pending pod')} more: at most {MOST_ASKED} pods with different specs are asked about"]
        if left
        else []
    )
    return list(found.values()), notes


def _said(answer: Explanation, name: str) -> Any:
    """What is said of a pod, without its name."""
    parts = msgspec.to_builtins((answer.state, answer.reasons, answer.remedies))
    return msgspec.json.encode(parts).decode().replace(name, "")
