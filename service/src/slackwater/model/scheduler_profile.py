"""What the profiles of a KubeSchedulerConfiguration say about where pods fit, beyond kube-scheduler's default profile.

- `FilterProfile`: the filters of one profile. A pod's profile is found by its `schedulerName` (`profile_of`).
- `SpreadSources`, `with_default_spread`: the profile's spread constraints for pods that state none. They select the pods of the
  same Services and controller, so they are written into each pod's `Kind`. All other rules are read where pods are judged.

Invariant: a pod whose scheduler no profile names is judged by the default profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from msgspec import structs

from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind, NodeSelectorTerm, SpreadConstraint
from slackwater.model.resources import is_extended_resource
from slackwater.model.selectors import Requirement, Selector

#: Distinct groups of pods whose spread by default is cached.
_CACHED_KINDS: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterProfile:
    """The filters of a profile where they differ from the default profile's.

    `ignored_resources`, `ignored_groups`: extended resources, and the parts of names before "/", that NodeResourcesFit does not
    judge. `added_affinity`: each node has to match one of these terms too; None for no terms. `spread`: the constraints,
    without selectors, of pods that state none; empty if none is hard. `disabled`: names of plug-ins that do not filter.
    """

    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    added_affinity: tuple[NodeSelectorTerm, ...] | None = None
    spread: tuple[SpreadConstraint, ...] = ()
    disabled: frozenset[str] = frozenset()

    def ignores(self, resource: str) -> bool:
        """Whether NodeResourcesFit leaves the resource out. Only extended resources can be ignored."""
        ignored = resource in self.ignored_resources or resource.partition("/")[0] in self.ignored_groups
        return ignored and is_extended_resource(resource)


DEFAULT_PROFILE: Final = FilterProfile()
#: The profiles by `schedulerName`.
Profiles = Mapping[str, FilterProfile]
NO_PROFILES: Final[Profiles] = {}


def profile_of(profiles: Profiles, kind: Kind) -> FilterProfile:
    return profiles.get(kind.scheduler_name, DEFAULT_PROFILE)


#: The kinds of controllers by whose selectors kube-scheduler spreads pods.
SPREADING: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSources:
    """The selectors from which kube-scheduler makes those of default constraints: of Services, by namespace, and of controllers
    in `SPREADING`, by namespace and controller."""

    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    controllers: Mapping[tuple[str, Owner], Selector] = field(default_factory=dict)

    def selector_of(self, pod: Pod) -> Selector:
        """The selector of the pods with which the pod is spread by default; None if neither a Service nor its controller
        selects it. As in k8s.io/kubernetes v1.36.3, pkg/scheduler/framework/plugins/helper/spread.go."""
        namespace, labels = pod.key.namespace, dict(pod.labels)
        exact: dict[str, str] = {}
        for service in self.services.get(namespace, ()):
            if service and all(labels.get(key) == value for key, value in service.items()):
                exact.update(service)
        owner = pod.eviction_facts.owner
        own = (None if owner is None else self.controllers.get((namespace, owner))) or ()
        if owner is not None and owner.kind == "ReplicationController":  # its labels replace those of Services
            exact.update((requirement.key, requirement.values[0]) for requirement in own)
            own = ()
        found = [Requirement(key, "In", (value,)) for key, value in sorted(exact.items())]
        return (*found, *(requirement for requirement in own if requirement not in found)) or None


NO_SPREAD_SOURCES: Final = SpreadSources()


def with_default_spread(pod: Pod, profiles: Profiles, sources: SpreadSources) -> Pod:
    """The pod with the default constraints of its profile, if it states none. Constraints that an earlier call added are
    replaced."""
    profile = profile_of(profiles, pod.kind)
    if not profile.spread:
        return pod
    selector = sources.selector_of(pod)
    kind, successor = _spread(pod.kind, profile, selector), pod.successor
    if successor is not None:
        successor = _spread(successor, profile, selector)
    same = kind == pod.kind and successor == pod.successor
    return pod if same else structs.replace(pod, kind=kind, successor=successor)


@lru_cache(maxsize=_CACHED_KINDS)
def _spread(kind: Kind, profile: FilterProfile, selector: Selector) -> Kind:
    asks = kind.pod_constraints or NO_POD_CONSTRAINTS
    if any(not constraint.by_default for constraint in asks.spread):
        return kind
    spread = tuple(replace(constraint, selector=selector) for constraint in profile.spread if selector is not None)
    if spread == asks.spread:
        return kind
    asks = replace(asks, spread=spread)
    return replace(kind, pod_constraints=None if asks == NO_POD_CONSTRAINTS else asks)
