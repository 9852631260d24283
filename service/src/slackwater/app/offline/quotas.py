"""ResourceQuotas as admission applies them to pods and claims that do not exist yet (k8s.io/kubernetes v1.36.3, pkg/quota/v1).

In: a ResourceQuota with what the objects of its namespace use. Out: why it refuses one more, and what is left.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from slackwater.adapters.api_objects import Quantity, Wire
from slackwater.app.offline.limit_ranges import Object, Totals, amounts_of, containers_of, nanos_of, text_of, texts_of, totals
from slackwater.app.offline.objects import FoundObject
from slackwater_protocol.units import NANO

#: What a pod or a claim counts for, and the spec of a pod.
Usage = tuple[Totals, Object | None]
_COMPUTE: Final = frozenset({"cpu", "memory"})
_WITH_LIMITS: Final = _COMPUTE | {"ephemeral-storage"}


def usage_of(spec: Object) -> Totals:
    """What a pod counts for, by the keys of quotas, in nanos. `spec` is completed."""
    requests, limits = totals(spec, "requests"), totals(spec, "limits")
    for name, nanos in nanos_of(spec.get("overhead")).items():
        requests[name] = requests.get(name, 0) + nanos
        if limits.get(name):
            limits[name] += nanos
    found = {"pods": NANO, "count/pods": NANO} | {f"requests.{name}": nanos for name, nanos in requests.items()}
    found |= {name: nanos for name, nanos in requests.items() if name in _WITH_LIMITS or name.startswith("hugepages-")}
    return found | {f"limits.{name}": nanos for name, nanos in limits.items() if name in _WITH_LIMITS}


class _ClaimResources(Wire):
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        nanos_of(self.requests)


class _ClaimSpec(Wire):
    resources: _ClaimResources = msgspec.field(default_factory=_ClaimResources)
    storage_class_name: str | None = None


class _Claim(Wire):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


def claim_spec(raw: bytes) -> Object:
    """The spec of a claim. Raises ValueError if what quotas count cannot be read."""
    msgspec.json.decode(raw, type=_Claim)
    found: Object = msgspec.json.decode(raw).get("spec") or {}
    return found


def usage_of_claim(spec: Object) -> Totals:
    """What a claim counts for."""
    size = amounts_of(spec, "requests").get("storage", 0)
    whole = {"persistentvolumeclaims": NANO, "requests.storage": size}
    by_class = {f"{spec.get('storageClassName')}.storageclass.storage.k8s.io/{key}": each for key, each in whole.items()}
    return {**whole, **by_class, "count/persistentvolumeclaims": NANO}


class _Scope(Wire):
    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def selects(self, spec: Object) -> bool:
        of = totals if spec.get("resources") is None else amounts_of  # a pod's own resources alone decide on its class
        asked = any(of(spec, which).get(name) for which in ("requests", "limits") for name in _COMPUTE)
        match self.scope_name:
            case "Terminating" | "NotTerminating":
                return (spec.get("activeDeadlineSeconds") is not None) == (self.scope_name == "Terminating")
            case "BestEffort" | "NotBestEffort":
                return asked == (self.scope_name == "NotBestEffort")
            case "PriorityClass":
                return self._has_class(spec.get("priorityClassName") or "")
            case _:
                return False

    def _has_class(self, name: str) -> bool:
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case operator:
                return bool(name) == (operator == "Exists")


class _Selector(Wire):
    match_expressions: tuple[_Scope, ...] = ()


class _Spec(Wire):
    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: _Selector = msgspec.field(default_factory=_Selector)

    def __post_init__(self) -> None:
        nanos_of(self.hard)


class _Status(Wire):
    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    used: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        nanos_of(self.hard), nanos_of(self.used)


class _QuotaWire(Wire):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_QUOTA: Final = msgspec.json.Decoder(_QuotaWire)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota: its object, what it limits and what is used, by its keys in nanos. `used` changes."""

    item: FoundObject
    scopes: tuple[_Scope, ...]
    hard: Totals
    used: Totals

    @classmethod
    def of(cls, item: FoundObject, used: Iterable[Usage]) -> "Quota":
        """The quota of an object. Without a status, what the pods and claims of its namespace use is counted."""
        wire = item.decoded(_QUOTA.decode)
        scopes = (*(_Scope(scope_name=name) for name in wire.spec.scopes), *wire.spec.scope_selector.match_expressions)
        found = cls(
            item=item, scopes=scopes, hard=nanos_of(wire.status.hard or wire.spec.hard), used=nanos_of(wire.status.used)
        )
        if not wire.status.hard:
            for each in used:
                found.take(*each)
        return found

    def take(self, usage: Totals, pod: Object | None = None) -> None:
        if self.counts(pod):
            for name in usage.keys() & self.hard.keys():
                self.used[name] = self.used.get(name, 0) + usage[name]

    def counts(self, pod: Object | None) -> bool:
        """Does it count the pod? None stands for a claim, which no scope selects."""
        return all(pod is not None and scope.selects(pod) for scope in self.scopes)

    def refusal(self, usage: Totals, pod: Object | None = None) -> str:
        """Why it refuses what counts for this, in the words of the API server; "" if it does not."""
        if not self.counts(pod):
            return ""
        whole = pod is None or texts_of(pod, "requests") or texts_of(pod, "limits")
        missing = {} if pod is None or whole else {key: _without(key, pod) for key in sorted(self.hard)}
        if wanting := "; ".join(f"{key} for: {','.join(names)}" for key, names in missing.items() if names):
            return f"failed quota: {self.item.name}: must specify {wanting}"
        over = [
            key
            for key in sorted(usage.keys() & self.hard.keys())
            if usage[key] and self.used.get(key, 0) + usage[key] > self.hard[key]
        ]
        if not over:
            return ""
        shown = [",".join(f"{key}={text_of(key, each.get(key, 0))}" for key in over) for each in (usage, self.used, self.hard)]
        return f"exceeded quota: {self.item.name}, requested: {shown[0]}, used: {shown[1]}, limited: {shown[2]}"

    def object(self) -> FoundObject:
        """The quota's object with what is used now."""
        body = msgspec.json.decode(self.item.raw)
        amounts = {
            key: {name: f"{nanos}n" for name, nanos in each.items()} for key, each in (("hard", self.hard), ("used", self.used))
        }
        return replace(self.item, raw=msgspec.Raw(msgspec.json.encode({**body, "status": amounts})))


def _without(key: str, spec: Object) -> list[str]:
    """The containers that do not name what a quota's key limits, where each has to."""
    which, _, name = key.rpartition(".")
    if name not in _COMPUTE or which not in {"", "requests", "limits"}:
        return []
    return sorted(each.get("name", "") for each in containers_of(spec) if name not in texts_of(each, which or "requests"))
