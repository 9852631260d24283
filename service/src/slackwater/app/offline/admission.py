"""Admits pods that do not exist yet, as the API server's plug-ins Priority, RuntimeClass, LimitRanger and ResourceQuota do.

In: the objects of a file. Out: templates and new pods with the defaults that the plug-ins set; for each pod that would be
created, why it would be refused. Invariant: a pod that exists is never judged, since it was admitted when it was created.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.api_objects import Int32, Quantity, Wire
from slackwater.adapters.kube.decode import ENDED
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.app.offline.completed import completed_template
from slackwater.app.offline.limit_ranges import LimitRange, Object, nanos_of
from slackwater.app.offline.objects import (
    DAEMON_SET,
    LIMIT_RANGE,
    POD_TEMPLATE,
    PRIORITY_CLASS,
    QUOTA,
    RUNTIME_CLASS,
    FoundObject,
)
from slackwater.app.offline.quotas import Quota, Usage, claim_spec, usage_of, usage_of_claim
from slackwater.app.offline.shapes import check_shape
from slackwater.model.auxiliary import WORKLOAD_KINDS
from slackwater.model.ids import PodKey
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.near_names import near_name
from slackwater.model.texts import first_few

_CLAIM: Final = "PersistentVolumeClaim"
_TEMPLATED: Final = (DAEMON_SET, POD_TEMPLATE, *(kind for _, kind in WORKLOAD_KINDS))
T = TypeVar("T")


class _Priority(Wire):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class _Overhead(Wire):
    pod_fixed: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        nanos_of(self.pod_fixed)


class _Scheduling(Wire):
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Runtime(Wire):
    overhead: _Overhead = msgspec.field(default_factory=_Overhead)
    scheduling: _Scheduling = msgspec.field(default_factory=_Scheduling)


_PRIORITY: Final = msgspec.json.Decoder(_Priority)
_RUNTIME: Final = msgspec.json.Decoder(_Runtime)
_LIMITS: Final = msgspec.json.Decoder(LimitRange)
#: The priority classes that every cluster has.
SYSTEM_CLASSES: Final = {
    "system-cluster-critical": _Priority(value=2 * 10**9),
    "system-node-critical": _Priority(value=2 * 10**9 + 1000),
}


class Admission:
    """The plug-ins with the objects that they read. `refused` says for people what is not admitted, `unknown` of which classes
    the file has no object."""

    def __init__(
        self,
        by_kind: Mapping[str, Sequence[FoundObject]],
        kubernetes: KubernetesVersion,
        listed: Set[str] = frozenset(),
        where: str = "in the file",
    ) -> None:
        """`listed`: kinds all of whose objects are there, if any. `where` they were looked for, for messages."""
        self._kubernetes, self._where = kubernetes, where
        self._classes_known = bool(by_kind[PRIORITY_CLASS]) or PRIORITY_CLASS in listed
        self._runtimes_known = bool(by_kind[RUNTIME_CLASS]) or RUNTIME_CLASS in listed
        self._limits: dict[str, dict[str, LimitRange]] = {}
        for item in by_kind[LIMIT_RANGE]:
            self._limits.setdefault(item.namespace, {})[item.title] = item.decoded(_LIMITS.decode)
        self._priorities = {item.name: item.decoded(_PRIORITY.decode) for item in by_kind[PRIORITY_CLASS]}
        self._default = max((name for name, each in self._priorities.items() if each.global_default), default="")
        self._runtimes = {item.name: item.decoded(_RUNTIME.decode) for item in by_kind[RUNTIME_CLASS]}
        self._quotas: dict[str, list[Quota]] = {}
        used = self._used(by_kind, {item.namespace for item in by_kind[QUOTA]})
        for item in by_kind[QUOTA]:
            self._quotas.setdefault(item.namespace, []).append(Quota.of(item, used.get(item.namespace, ())))
        self._daemons: dict[PodKey, Object] = {}
        self.refused: list[str] = []
        self.unknown: dict[str, None] = {}

    def _used(self, by_kind: Mapping[str, Sequence[FoundObject]], namespaces: Set[str]) -> dict[str, list[Usage]]:
        """What the pods that exist and have not ended use in each namespace, and the claims."""
        found: dict[str, list[Usage]] = {}
        for pod in by_kind["Pod"]:
            if pod.namespace in namespaces:
                body = pod.decoded(_body, self._kubernetes)
                if _exists(pod, body) and body["status"].get("phase") not in ENDED:
                    found.setdefault(pod.namespace, []).append((usage_of(body["spec"]), body["spec"]))
        for claim in by_kind[_CLAIM]:
            if claim.namespace in namespaces:
                found.setdefault(claim.namespace, []).append((usage_of_claim(claim.decoded(claim_spec)), None))
        return found

    def quotas(self) -> Iterator[FoundObject]:
        """The quotas with what is used now."""
        return (quota.object() for quotas in self._quotas.values() for quota in quotas)

    def with_defaults(self, by_kind: Mapping[str, list[FoundObject]]) -> dict[str, list[FoundObject]]:
        """The objects with the defaults of templates and new pods, without new pods that are refused."""
        changed = {kind: [self._defaulted(item) for item in by_kind[kind]] for kind in _TEMPLATED}
        return {**by_kind, **changed, "Pod": [pod for item in by_kind["Pod"] for pod in self._admitted(item)]}

    def _defaulted(self, item: FoundObject) -> FoundObject:
        if not self._concerns(item):
            return item
        try:
            check_shape("template", item.raw)
            body = completed_template(msgspec.json.decode(item.raw), self._kubernetes)
        except UNREADABLE:
            return item  # its decoder says what is wrong
        template = body["spec"]["template"]
        template = {**template, "spec": self._spec(item, template["spec"])}
        return _with_body(item, {**body, "spec": {**body["spec"], "template": template}})

    def _admitted(self, item: FoundObject) -> Iterator[FoundObject]:
        """The pod with its defaults if it is new; nothing if it is refused."""
        if item.uid or not (self._concerns(item) or item.namespace in self._quotas):
            yield item
            return
        body = item.decoded(_body, self._kubernetes)
        if not _exists(item, body):
            item = _with_body(item, body := {**body, "spec": self._spec(item, body["spec"])})
        if _exists(item, body) or self.admitted(item.title, item.namespace, body["spec"], [item.name]):
            yield item

    def _concerns(self, item: FoundObject) -> bool:
        raw = bytes(item.raw)
        named = b'"priorityClassName"' in raw or b'"runtimeClassName"' in raw
        return named or bool(self._default) or item.namespace in self._limits

    def _spec(self, item: FoundObject, spec: Object) -> Object:
        """The completed spec of a pod with what the plug-ins set."""
        name = spec.get("priorityClassName") or self._default
        if priority := (SYSTEM_CLASSES | self._priorities).get(name):
            found = {"preemptionPolicy": priority.preemption_policy, "priority": priority.value}
            spec = {**found, **spec, "priorityClassName": name}
        elif name and not self._classes_known and "priority" not in spec:
            self.unknown[f"the priority of PriorityClass {name}: no {PRIORITY_CLASS} {self._where}"] = None
        name = spec.get("runtimeClassName") or ""
        if runtime := self._runtimes.get(name):
            more, tolerations = runtime.scheduling, spec.get("tolerations") or []
            new = [each for each in more.tolerations if each not in tolerations]
            selector = {**(spec.get("nodeSelector") or {}), **more.node_selector}
            spec = {
                "overhead": runtime.overhead.pod_fixed,
                **spec,
                "nodeSelector": selector,
                "tolerations": [*tolerations, *new],
            }
        elif name and not self._runtimes_known and not spec.get("overhead"):
            self.unknown[f"the overhead of RuntimeClass {name}: no {RUNTIME_CLASS} {self._where}"] = None
        for limits in self._limits.get(item.namespace, {}).values():
            spec = limits.defaulted(spec)
        return spec

    def admitted(
        self,
        title: str,
        namespace: str,
        spec: Object,
        pods: Sequence[T],
        claims_of: Callable[[T], Iterable[FoundObject]] = lambda _: (),
    ) -> list[T]:
        """The first of these pods, as many as are admitted. They have this completed spec, `claims_of` their claims."""
        found, of_spec = list[T](), self._refusals_of(namespace, spec)
        for pod in pods:
            if why := self._refusal(namespace, of_spec, claims_of(pod)):
                left = len(pods) - len(found)
                what = (
                    "it"
                    if title.startswith("Pod ")
                    else f"{left} of its pods that {'is' if left == 1 else 'are'} not in the file"
                )
                self.refused.append(f"{title}: {what} would not be admitted: {why}")
                break
            found.append(pod)
        return found

    def makes_pods(self, daemon_set: FoundObject) -> bool:
        """Would a pod of the DaemonSet be admitted?"""
        body = daemon_set.decoded(_body, self._kubernetes, templated=True)
        spec = self._daemons[PodKey(daemon_set.namespace, daemon_set.name)] = body["spec"]["template"]["spec"]
        if why := self._refusal(daemon_set.namespace, self._refusals_of(daemon_set.namespace, spec), take=False):
            self.refused.append(f"{daemon_set.title}: its pods would not be admitted: {why}")
        return not why

    def daemons(self, key: PodKey, nodes: Sequence[T]) -> list[T]:
        """The first of the nodes, as many as pods of the DaemonSet are admitted."""
        return self.admitted(f"DaemonSet {key}", key.namespace, self._daemons[key], nodes)

    def _refusals_of(self, namespace: str, spec: Object) -> tuple[list[str], Usage]:
        """Why each pod with this completed spec is refused, whatever quotas have left, and what it counts for."""
        found = self._lacked(spec)
        limits = self._limits.get(namespace, {}).items()
        return [*found, *(f"{title}: {why}" for title, each in limits if (why := each.refusal(spec)))], (usage_of(spec), spec)

    def _refusal(
        self,
        namespace: str,
        of_spec: tuple[list[str], Usage],
        claims: Iterable[FoundObject] = (),
        *,
        take: bool = True,
    ) -> str:
        """Why a pod of this kind and with these claims would be refused; "" if it is admitted. Then quotas count it, if
        `take`."""
        reasons, usage = of_spec
        quotas, wanted = self._quotas.get(namespace, []), [each.decoded(claim_spec) for each in claims]
        limits = self._limits.get(namespace, {}).items() if wanted else ()
        found = [*reasons, *(f"{title}: {why}" for title, each in limits for why in map(each.refusal_of_claim, wanted) if why)]
        counted: list[Usage] = [usage, *((usage_of_claim(each), None) for each in wanted)]
        found += [f"{quota.item.title}: {why}" for quota in quotas for each in counted if (why := quota.refusal(*each))]
        for quota in quotas if take and not found else ():
            for each in counted:
                quota.take(*each)
        return "; ".join(found)

    def _lacked(self, spec: Object) -> list[str]:
        """Which classes of a pod do not exist, of a kind of which all are known: what the API server would say."""
        priority, runtime = spec.get("priorityClassName"), spec.get("runtimeClassName")
        found = list[str]()
        if priority and self._classes_known and priority not in (known := SYSTEM_CLASSES | self._priorities):
            found.append(f"no PriorityClass with name {priority} was found{meant_text(priority, known)}")
        if runtime and self._runtimes_known and runtime not in self._runtimes:
            found.append(f'pod rejected: RuntimeClass "{runtime}" not found{meant_text(runtime, self._runtimes)}')
        return found


#: How many known names a message lists.
_MOST_KNOWN: Final = 10


def meant_text(name: str, known: Iterable[str]) -> str:
    """What to write after a message about an object that does not exist: the name that was likely meant, else those that there
    are."""
    names = sorted(known)
    near = near_name(name, names)
    return f"; did you mean {near}?" if near else f"; known are {first_few(names, _MOST_KNOWN) or 'none'}"


def _exists(item: FoundObject, body: Object) -> bool:
    """Is the pod one of a cluster, and no manifest?"""
    return bool(item.uid or body["spec"].get("nodeName") or body["status"].get("phase"))


def _body(raw: bytes) -> dict[str, Any]:
    """A pod, or an object with a template. Raises ValueError if its amounts cannot be read."""
    body: dict[str, Any] = msgspec.json.decode(raw)
    usage_of((body["spec"].get("template") or body)["spec"])
    return body


def _with_body(item: FoundObject, body: Object) -> FoundObject:
    return replace(item, raw=msgspec.Raw(msgspec.json.encode(body)))
