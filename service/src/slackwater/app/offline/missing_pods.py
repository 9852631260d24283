"""Makes the pods that controllers of a file would create and that the file lacks, as manifests.

In: the objects of a file with its decoded pods. Out: the pods of Deployments, ReplicaSets, StatefulSets, Jobs and
ReplicationControllers with the claims that come with them, and a remark for people about each controller. A pod belongs to the
controller that its ownerReferences name, or if they name none of the file, to one whose selector selects it. Invariants: a
Deployment's pods are made once, not again for its ReplicaSets; a controller with all its pods adds nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Annotated, Any, Final

import msgspec

from slackwater.adapters.api_objects import ConditionWire, Int32, Wire
from slackwater.adapters.kube.auxiliary import decode_job, decode_selector
from slackwater.adapters.kube.decode import read_meta
from slackwater.adapters.kube.eviction_facts import controller_of
from slackwater.app.offline.admission import Admission
from slackwater.app.offline.objects import JOB, ClusterError, FoundObject
from slackwater.app.offline.quotas import usage_of
from slackwater.fit.remaining_pdb_tracker import DEPLOYMENT, Scales
from slackwater.model.auxiliary import WORKLOAD_KINDS, ControllerKey
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Labels, Pod
from slackwater.model.selectors import Requirement, Selector, SelectorIndex, selects
from slackwater.model.texts import added_pods_text

CLAIM: Final = "PersistentVolumeClaim"
CLASS: Final = "StorageClass"
#: A larger number of missing pods is taken for a mistake.
_MOST: Final = 200_000
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
#: The conditions of a Job that makes no more pods.
_OVER: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


@dataclass(slots=True, kw_only=True)
class Missing:
    """What controllers would create. `deployments` and `selectors` are the Deployments and the selectors of the ReplicaSets to
    which a Deployment's new pods belong. `remarks`: a text for people about the controller of each pod."""

    pods: list[FoundObject] = field(default_factory=list)
    claims: list[FoundObject] = field(default_factory=list)
    deployments: dict[ControllerKey, ControllerKey] = field(default_factory=dict)
    selectors: dict[ControllerKey, Selector] = field(default_factory=dict)
    remarks: dict[PodKey, str] = field(default_factory=dict)


class _Status(Wire):
    conditions: tuple[ConditionWire, ...] = ()
    succeeded: Int32 = 0


class _Ordinals(Wire):
    start: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class _Meta(Wire):
    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Part(Wire):
    """The template of a pod or of a claim."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class _Ephemeral(Wire):
    volume_claim_template: _Part = msgspec.field(default_factory=_Part)


class _Volume(Wire):
    name: str = ""
    ephemeral: _Ephemeral | None = None


class _PodSpec(Wire):
    volumes: tuple[_Volume, ...] = ()


class _PodTemplate(Wire):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _Spec(Wire):
    """The fields of all kinds together."""

    template: _Part = msgspec.field(default_factory=_Part)
    paused: bool = False
    completions: Int32 | None = None
    managed_by: str = _JOB_CONTROLLER
    ordinals: _Ordinals = msgspec.field(default_factory=_Ordinals)
    volume_claim_templates: tuple[_Part, ...] = ()


class _Controller(Wire):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def is_active(self, kind: str, *, known: bool) -> bool:
        """Does the controller make pods? `known`: it has made some. A paused Deployment makes no ReplicaSet, but scales those
        that it has."""
        if kind != JOB:
            return known or not self.spec.paused
        over = any(each.type in _OVER and each.status == "True" for each in self.status.conditions)
        # Without a number of completions no pod is made once one has succeeded.
        ending = self.spec.completions is None and self.status.succeeded > 0
        return not over and not ending and self.spec.managed_by == _JOB_CONTROLLER


_CONTROLLER: Final = msgspec.json.Decoder(_Controller)


def _template(raw: bytes) -> tuple[_Part, tuple[_Volume, ...]]:
    """The pod template of a controller, and its volumes."""
    found = _CONTROLLER.decode(raw).spec.template
    usage_of(found.spec)  # raises ValueError for amounts that cannot be read
    return found, msgspec.convert({"spec": found.spec}, _PodTemplate).spec.volumes


def missing_pods(
    by_kind: Mapping[str, Sequence[FoundObject]],
    pods: Sequence[Pod],
    scales: Scales,
    kubernetes: KubernetesVersion,
    admission: Admission,
    *,
    classes_known: bool,
) -> Missing:
    """The pods that are missing, and their claims. Raises `ClusterError`."""
    if not any(by_kind[kind] for _, kind in WORKLOAD_KINDS):
        return Missing()
    scales = replace(scales, deployments={**scales.deployments, **_adopted(by_kind, scales)})
    present, found, claims = _Present(pods, scales), Missing(), _Claims.of(by_kind, classes_known)
    for group, kind in WORKLOAD_KINDS:
        # Of several manifests of one name the last counts.
        for key, item in {(item.namespace, Owner(group, kind, item.name)): item for item in by_kind[kind]}.items():
            if scales.deployments.get(key) in scales.replicas:
                continue
            wanted = item.decoded(decode_job).replicas if kind == JOB else scales.replicas[key]
            if wanted <= present.owned(key) or wanted <= (there := present.count(item, key)):
                continue
            controller = item.decoded(_CONTROLLER.decode)
            if controller.is_active(kind, known=present.is_known(key, there)):
                refuse_too_many(item.path, item.title, len(found.pods), wanted - there)
                names = present.missing_names(item, controller.spec.ordinals.start, range(there, wanted))
                maker = _Maker(item, present.owner(key), *item.decoded(_template, kubernetes, templated=True), controller)
                claims_of = {name: list(maker.claims(name, claims)) for name in names}
                names = admission.admitted(item.title, item.namespace, maker.template.spec, names, claims_of.__getitem__)
                found.pods += map(maker.pod, names)
                found.claims += (claim for name in names for claim in claims_of[name])
                found.remarks |= remarks_on(item.title, [PodKey(item.namespace, name) for name in names])
                if (group, kind) == DEPLOYMENT:
                    found.deployments[item.namespace, maker.owner] = key
                    found.selectors[item.namespace, maker.owner] = item.decoded(partial(decode_selector, kind))
    return found


def refuse_too_many(path: str, title: str, before: int, more: int) -> None:
    """Raises `ClusterError` if so many missing pods of a controller, after so many of others, are a mistake."""
    if before + more > _MOST:
        others = f" after {before} of others" if before else ""
        raise ClusterError(path, title, f"{more} of its pods are missing{others}, want at most {_MOST} in all")


def _adopted(by_kind: Mapping[str, Sequence[FoundObject]], scales: Scales) -> dict[ControllerKey, ControllerKey]:
    """The Deployments of ReplicaSets that name no owner: Deployments adopt those that their selectors select."""
    selecting: dict[str, SelectorIndex[Owner]] = {}
    for item in by_kind["Deployment"]:
        selector = item.decoded(partial(decode_selector, item.kind)) or None
        selecting.setdefault(item.namespace, SelectorIndex()).put(Owner(*DEPLOYMENT, item.name), selector)
    found: dict[ControllerKey, ControllerKey] = {}
    for item in by_kind["ReplicaSet"]:
        key = (item.namespace, Owner("apps", "ReplicaSet", item.name))
        if item.namespace in selecting and scales.replicas[key] and controller_of(meta := read_meta(item.raw)) is None:
            for above in sorted(selecting[item.namespace].selecting(meta.labels or {}), key=lambda each: each.name):
                found[key] = (item.namespace, above)
    return found


def remarks_on(controller: str, pods: Sequence[PodKey]) -> dict[PodKey, str]:
    """Says of each pod with which others it was made for its controller."""
    names = f"{pods[0]} to {pods[-1].name}" if len(pods) > 1 else "".join(map(str, pods))
    return dict.fromkeys(pods, added_pods_text(controller, len(pods), names))


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the manifests of one controller's pods and of their claims. `owner` is in their ownerReferences; `template` and
    `volumes` are completed."""

    item: FoundObject
    owner: Owner
    template: _Part
    volumes: tuple[_Volume, ...]
    controller: _Controller

    def pod(self, name: str) -> FoundObject:
        meta, owner, own = self.template.metadata, self.owner, self.template.spec.get("volumes") or []
        templates = [each.metadata.name for each in self.controller.spec.volume_claim_templates]
        mounts = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in templates]
        mounts += [each for each, volume in zip(own, self.volumes, strict=True) if volume.name not in templates]
        group = f"{owner.group}/v1" if owner.group else "v1"
        body = {
            "metadata": {
                "name": name,
                "labels": meta.labels | self._labels(name),
                "annotations": meta.annotations,
                "ownerReferences": [{"apiVersion": group, "kind": owner.kind, "name": owner.name, "controller": True}],
            },
            "spec": {**self.template.spec, "volumes": mounts},
        }
        return self._object("Pod", body)

    def _labels(self, pod: str) -> dict[str, str]:
        """The labels that the controller adds."""
        match self.item.kind:
            case "Job":
                return {"job-name": self.item.name, "batch.kubernetes.io/job-name": self.item.name}
            case "StatefulSet":
                return {"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": pod.rpartition("-")[2]}
            case _:
                return {}

    def claims(self, pod: str, known: "_Claims") -> Iterator[FoundObject]:
        """The pod's claims: those that a StatefulSet makes, and those of its generic ephemeral volumes."""
        uid = f"Pod/{self.item.namespace}/{pod}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
        for template in self.controller.spec.volume_claim_templates:
            yield from self._claim(f"{template.metadata.name}-{pod}", template, [], known)
        for volume in self.volumes:
            if volume.ephemeral is not None:
                yield from self._claim(f"{pod}-{volume.name}", volume.ephemeral.volume_claim_template, [owner], known)

    def _claim(
        self, name: str, template: _Part, owners: Sequence[Mapping[str, Any]], known: "_Claims"
    ) -> Iterator[FoundObject]:
        if (self.item.namespace, name) not in known.names:
            meta = {"name": name, "annotations": template.metadata.annotations, "ownerReferences": owners}
            yield self._object(CLAIM, {"metadata": meta, "spec": {"storageClassName": known.default_class, **template.spec}})

    def _object(self, kind: str, body: Mapping[str, Any]) -> FoundObject:
        raw, name = msgspec.Raw(msgspec.json.encode(body)), body["metadata"]["name"]
        return FoundObject(path=self.item.path, kind=kind, namespace=self.item.namespace, name=name, raw=raw)


class _Present:
    """The pods of the file that controllers have: neither ended nor being deleted."""

    def __init__(self, pods: Iterable[Pod], scales: Scales) -> None:
        self._owned = Counter[ControllerKey]()
        #: By namespace: how many pods without a controller in the file have these labels and this ReplicaSet.
        self._loose: dict[str, Counter[tuple[Labels, Owner | None]]] = {}
        #: The same labels and ReplicaSets by namespace and each label.
        self._labelled: dict[tuple[str, str, str], dict[tuple[Labels, Owner | None], None]] = {}
        self._names = {pod.key for pod in pods if not pod.ended}
        self._replicas = scales.replicas
        self._replica_sets: dict[ControllerKey, list[ControllerKey]] = {}
        #: The ReplicaSets that the file lacks, by Deployment.
        self._absent: dict[ControllerKey, Owner] = {}
        for key, deployment in scales.deployments.items():
            self._replica_sets.setdefault(deployment, []).append(key)
        for pod in pods:
            owner, namespace = pod.eviction_facts.owner, pod.key.namespace
            if pod.ended or pod.deleting:
                continue
            if owner is not None:
                self._owned[namespace, owner] += 1
            if owner is None or (owner.kind == "ReplicaSet" and (namespace, owner) not in scales.replicas):
                self._loose.setdefault(namespace, Counter())[pod.labels, owner] += 1
                for pair in pod.labels:
                    self._labelled.setdefault((namespace, *pair), {})[pod.labels, owner] = None

    def owned(self, key: ControllerKey) -> int:
        return self._owned[key] + sum(self._owned[each] for each in self._replica_sets.get(key, ()))

    def count(self, item: FoundObject, key: ControllerKey) -> int:
        """How many pods the controller has. Those that it selects and that belong to no controller of the file become its
        own."""
        selector = item.decoded(partial(decode_selector, item.kind)) or None
        if item.kind == JOB and selector is None:
            selector = (Requirement("job-name", "In", (item.name,)),)
        loose, found = self._loose.get(item.namespace, Counter()), self.owned(key)
        narrow = next((each for each in selector or () if each.operator == "In"), None)
        labelled = [(item.namespace, narrow.key, value) for value in narrow.values] if narrow is not None else []
        for labels, owner in [each for pair in labelled for each in self._labelled.get(pair, ())] if labelled else list(loose):
            if (labels, owner) not in loose:
                continue
            if (owner is None or self._may_have_made(key, owner)) and selects(selector, dict(labels)):
                found += loose.pop((labels, owner))
                if owner is not None:
                    self._absent[key] = owner
        return found

    def _may_have_made(self, key: ControllerKey, replica_set: Owner) -> bool:
        """Can the ReplicaSet be the Deployment's? It is named after its Deployment, with a hash; selectors may overlap."""
        named = Owner(*DEPLOYMENT, replica_set.name.rpartition("-")[0])
        return key[1] == named or (key[1].kind == DEPLOYMENT[1] and (key[0], named) not in self._replicas)

    def is_known(self, key: ControllerKey, there: int) -> bool:
        return there > 0 or key in self._replica_sets

    def owner(self, key: ControllerKey) -> Owner:
        """The owner of new pods: of a Deployment's the largest of its ReplicaSets, or an invented one."""
        if (key[1].group, key[1].kind) != DEPLOYMENT:
            return key[1]
        owned = self._replica_sets.get(key, ())
        largest = max(owned, key=lambda each: self._replicas.get(each, 0), default=None)
        return largest[1] if largest else self._absent.get(key) or Owner("apps", "ReplicaSet", f"{key[1].name}-missing")

    def missing_names(self, item: FoundObject, first: int, missing: range) -> list[str]:
        """The names of the pods `missing`: a StatefulSet's ordinals from `first` on, or made up."""
        if item.kind == "StatefulSet":
            ordinals = (f"{item.name}-{number}" for number in range(first, first + missing.stop))
            return [name for name in ordinals if PodKey(item.namespace, name) not in self._names]
        free = (name for at in count(1) if PodKey(item.namespace, name := f"{item.name}-missing-{at}") not in self._names)
        names = list(islice(free, len(missing)))
        self._names.update(PodKey(item.namespace, name) for name in names)
        return names


class _Annotated(Wire):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def _is_default(raw: bytes) -> bool:
    return msgspec.json.decode(raw, type=_Annotated).metadata.annotations.get(_DEFAULT_CLASS) == "true"


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims that are there, by namespace and name, and the class of those that name none."""

    names: frozenset[tuple[str, str]]
    default_class: str | None

    @classmethod
    def of(cls, by_kind: Mapping[str, Sequence[FoundObject]], classes_known: bool) -> "_Claims":
        """Where no StorageClass is known there may be a default one. Rules that need the class then do not judge."""
        default = next(
            (item.name for item in by_kind[CLASS] if item.decoded(_is_default)), None if classes_known else "unknown"
        )
        return cls(frozenset((item.namespace, item.name) for item in by_kind[CLAIM]), default)
