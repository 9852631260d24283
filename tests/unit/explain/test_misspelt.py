"""What a pod names wrongly is named before any other remedy, and the right name is tried as any other change."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.explain.findings import Explanation
from slackwater.explain.pods import explain_pod
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import (
    ClaimMount,
    NodeSelectorTerm,
    PodConstraints,
    PodTerm,
    SpreadConstraint,
    Toleration,
)
from slackwater.model.reasons import WaitReason
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, Storage, StorageClass, Volume
from tests.support.builders import a_node, a_pod
from tests.support.explaining import StatusSources
from tests.support.scalingup import a_group, a_template


def labelled(name: str, **labels: str) -> Node:
    return structs.replace(a_node(name, labels=labels, cpu="2"), scalars=(("pods", 110),))


def explained(pod: Pod, *nodes: Node, **more: Any) -> Explanation:
    return explain_pod(StatusSources(nodes=nodes, pending=(pod,), **more).explain_input(), pod)


def wanting(*requirements: Requirement, cpu: str = "1") -> Pod:
    pod = a_pod("web", cpu=cpu)
    term = NodeSelectorTerm(requirements, ())
    return structs.replace(pod, kind=replace(pod.kind, node_affinity=(term,)))


@pytest.mark.parametrize(
    ("pod", "wrong", "right"),
    [
        (a_pod("web", node_selector={"disk": "fsat"}), "disk=fsat", "disk=fast"),
        (a_pod("web", node_selector={"dsik": "fast"}), "dsik=fast", "disk=fast"),
        (wanting(Requirement("disk", "In", ("fsat", "none"))), "disk=fsat", "disk=fast"),
        (wanting(Requirement("dsik", "Exists", ())), "dsik", "disk"),
    ],
)
def test_a_misspelt_label_is_the_first_reason_and_the_first_remedy(pod: Pod, wrong: str, right: str) -> None:
    answer = explained(pod, labelled("n1", disk="fast"), labelled("n2", disk="slow"))
    first = answer.reasons[0]
    assert (first.code, first.objects, first.detail) == ("label_unknown", (f"label {wrong}",), f"did you mean {right}?")
    assert answer.remedies[0].change == f"let pod default/web want label {right} in place of {wrong}"
    assert len(answer.remedies) > 1, "the other remedies follow"


def test_a_label_written_right_is_no_remedy_where_the_pod_fits_nowhere_then_either() -> None:
    answer = explained(a_pod("web", cpu="9", node_selector={"disk": "fsat"}), labelled("n1", disk="fast"))
    assert answer.reasons[0].code == WaitReason.LABEL_UNKNOWN
    assert not any("in place of" in remedy.change for remedy in answer.remedies)


def test_two_misspelt_labels_are_one_remedy() -> None:
    answer = explained(a_pod("web", node_selector={"disk": "fsat", "tpye": "spot"}), labelled("n1", disk="fast", type="spot"))
    assert len(answer.remedies[0].changes) == 2
    assert all("in place of" in change for change in answer.remedies[0].changes)


def test_what_nodes_to_come_have_is_not_misspelt() -> None:
    """Nor is another zone, whose name differs on purpose."""
    pool = a_group("pool", a_template("t", labels={"disk": "fsat"}))
    zone = a_pod("web", node_selector={"zone": "eu-1b"})
    for answer in (
        explained(a_pod("web", node_selector={"disk": "fsat"}), labelled("n1", disk="fast"), groups=(pool,)),
        explained(zone, labelled("n1", zone="eu-1a")),
    ):
        assert WaitReason.LABEL_UNKNOWN not in {reason.code for reason in answer.reasons}


def with_claim(of_class: str, **more: Any) -> tuple[Pod, Storage]:
    pod = a_pod("db")
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))
    storage = Storage(
        claims={("default", "data"): Claim(namespace="default", name="data", uid="c", storage_class=of_class)},
        volumes={},
        classes={"fast": StorageClass(name="fast", provisioner="csi", binding_mode="WaitForFirstConsumer")},
        csi_nodes={},
    )
    return pod, replace(storage, **more)


@pytest.mark.parametrize(("of_class", "detail"), [("fsat", "did you mean fast?"), ("other", "known are fast")])
def test_a_class_that_does_not_exist_is_the_first_reason(of_class: str, detail: str) -> None:
    pod, storage = with_claim(of_class)
    first = explained(pod, labelled("n1"), storage=storage).reasons[0]
    assert (first.code, first.detail) == ("storage_class_unknown", detail)
    assert first.objects == (f"storageclass {of_class}", "claim default/data")


def test_a_class_of_volumes_made_by_hand_need_not_exist_and_unknown_classes_are_not_missed() -> None:
    pod, storage = with_claim("fsat", volumes={"v": Volume(name="v", labels={}, storage_class="fsat", capacity=1)})
    assert explained(pod, labelled("n1"), storage=storage).reasons[0].code != WaitReason.CLASS_UNKNOWN
    pod, storage = with_claim("fsat", classes=None)
    assert all(reason.code != WaitReason.CLASS_UNKNOWN for reason in explained(pod, labelled("n1"), storage=storage).reasons)


_TAINT = "dedicated=gpu-jobs:NoSchedule"
_PLAIN = structs.replace(
    a_node("plain", cpu="1", labels={"zone": "eu-a"}, taints=(Taint(key="spot", effect="PreferNoSchedule"),)),
    scalars=(("example.com/foo", 2), ("pods", 110)),
)
_GPU = structs.replace(
    a_node("gpu-1", cpu="2", labels={"zone": "eu-a"}, taints=(Taint(key="dedicated", value="gpu-jobs", effect="NoSchedule"),)),
    scalars=(("nvidia.com/gpu", 4), ("pods", 110)),
)
_DATABASE = a_pod("db-0", on="plain", cpu="0", labels={"app": "database"})


def asking(cpu: str, **constraints: Any) -> Pod:
    pod = a_pod("web", cpu=cpu, labels={"app": "web"})
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(**constraints)))


def tolerating(key: str, value: str, effect: str = "NoSchedule") -> Pod:
    return a_pod("web", cpu="2", tolerations=[Toleration(key, "Equal", value, effect)])


def beside(topology_key: str, app: str) -> Pod:
    term = PodTerm(topology_key=topology_key, selector=(Requirement("app", "In", (app,)),), namespaces=("default",))
    return asking("500m", affinity=(term,))


def spread_over(topology_key: str) -> Pod:
    return asking("500m", spread=(SpreadConstraint(hard=True, max_skew=1, topology_key=topology_key, selector=()),))


def on_node(name: str) -> Pod:
    pod = a_pod("web", cpu="500m")
    term = NodeSelectorTerm((), (Requirement("metadata.name", "In", (name,)),))
    return structs.replace(pod, kind=replace(pod.kind, node_affinity=(term,)))


@pytest.mark.parametrize(
    ("pod", "code", "what", "wrong", "right"),
    [
        (tolerating("dedicatd", "gpu-jobs"), "name_unknown", "toleration", "dedicatd=gpu-jobs:NoSchedule", _TAINT),
        (tolerating("dedicated", "gpujobs"), "name_unknown", "toleration", "dedicated=gpujobs:NoSchedule", _TAINT),
        (
            tolerating("dedicated", "gpu-jobs", "NoExecute"),
            "name_unknown",
            "toleration",
            "dedicated=gpu-jobs:NoExecute",
            _TAINT,
        ),
        (spread_over("zoen"), "label_unknown", "label", "zoen", "zone"),
        (beside("zoen", "database"), "label_unknown", "label", "zoen", "zone"),
        (beside("zone", "databse"), "name_unknown", "podLabel", "app=databse", "app=database"),
        (on_node("Plain"), "name_unknown", "nodeName", "Plain", "plain"),
        (asking("1", scalars=(("example.com/foos", 1),)), "name_unknown", "resource", "example.com/foos", "example.com/foo"),
    ],
)
def test_whatever_the_pod_names_wrongly_is_the_first_reason_and_writing_it_right_the_first_remedy(
    pod: Pod, code: str, what: str, wrong: str, right: str
) -> None:
    answer = explained(pod, _PLAIN, _GPU, running_pods=(_DATABASE,))
    first = answer.reasons[0]
    assert (first.code, first.objects, first.detail) == (code, (f"{what} {wrong}",), f"did you mean {right}?")
    assert answer.remedies[0].change == f"let pod default/web want {what} {right} in place of {wrong}"


def test_a_claim_that_does_not_exist_is_named_with_the_one_that_does() -> None:
    pod, storage = with_claim("fast")
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("dtaa"),))))
    first = explained(pod, labelled("n1"), storage=storage).reasons[0]
    assert (first.objects, first.detail) == (("claim default/dtaa",), "did you mean default/data?")


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("web", cpu="9", tolerations=[Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute")]),
        a_pod("web", cpu="9", tolerations=[Toleration("dedicated", "Equal", "other", "NoExecute")]),
        a_pod(
            "web", cpu="9", tolerations=[Toleration("spot", "Exists", "", "NoSchedule")]
        ),  # of a taint that keeps nobody away
        structs.replace(beside("zone", "web"), labels=(("app", "web"),)),  # the first of a group that keeps together
        beside("zone", "database"),
        asking("9", scalars=(("amd.com/gpu", 1),)),
    ],
)
def test_what_differs_on_purpose_is_not_misspelt(pod: Pod) -> None:
    answer = explained(pod, _PLAIN, _GPU, running_pods=(_DATABASE,))
    assert not {"name_unknown", "label_unknown"} & {reason.code for reason in answer.reasons}
