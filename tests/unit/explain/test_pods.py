"""What a person learns of a pod that waits."""

from dataclasses import replace

from msgspec import structs

from slackwater.controllers.placement.filter_facts import FilterFacts
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.explain.pods import explain_pod
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.reasons import Reason
from slackwater.model.selectors import Requirement
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod
from tests.support.explaining import StatusSources
from tests.support.scalingup import a_group, a_template

DEDICATED = Taint("dedicated", "batch", "NoSchedule")


def roomy(name: str, **more: object) -> Node:
    return structs.replace(a_node(name, **more), scalars=(("pods", 110),))  # type: ignore[arg-type]


def explained(reported: StatusSources, pod: Pod, **more: object) -> dict[str, object]:
    answer: dict[str, object] = json_of(explain_pod(reported.explain_input(), pod, **more))  # type: ignore[arg-type]
    return answer


def test_amounts_are_those_of_the_closest_node_and_the_smallest_change_is_a_remedy() -> None:
    pod = a_pod("big", cpu="3")
    reported = StatusSources(
        nodes=(roomy("n1"), roomy("n2")),
        running_pods=(a_pod("a", on="n1", cpu="2"), a_pod("b", on="n2", cpu="1250m")),
        pending=(pod,),
    )
    answer = explained(reported, pod)
    want_reason = {
        "code": "resources_short",
        "plugin": "NodeResourcesFit",
        "text": "Insufficient resources",
        "nodes": 2,
        "resource": "cpu",
        "short": {"milliCPU": 250},
        "objects": [],
        "detail": "Insufficient cpu",
        "closest": "n2",
    }
    assert answer["object"] == "pod default/big"
    assert answer["reasons"] == [want_reason]
    words = "lower the request of pod default/big for cpu by 250m, from 3 to 2750m"
    assert {"change": words, "checked": True, "changes": [words]} in answer["remedies"]  # type: ignore[operator]


def test_all_obstacles_of_a_node_are_named_and_only_together_they_are_a_remedy() -> None:
    pod = a_pod("big", cpu="3", node_selector={"disk": "fast"})
    reported = StatusSources(nodes=(roomy("n1", taints=[DEDICATED], cpu="2"),), pending=(pod,))
    answer = explain_pod(reported.explain_input(), pod)
    (found,) = answer.minimal
    want = ["taint_not_tolerated", "node_affinity", "resources_above_node"]
    assert [blocker.code for blocker in found.blockers] == want
    assert [remedy.change for remedy in answer.remedies] == [
        "remove taint dedicated=batch:NoSchedule from node n1; and label node n1 with disk=fast; and "
        "lower the request of pod default/big for cpu by 1, from 3 to 2"
    ]


def test_each_group_says_why_it_does_not_help_and_what_would_let_it() -> None:
    pod = a_pod("web", cpu="3")
    full = a_group(
        "full", a_template(cpu="4"), size=10, largest=10, skip_reason=SkipReason(kind="limit", text="at its maximum size")
    )
    small = a_group("small", a_template(cpu="2"))
    waiting = a_group("waiting", a_template(cpu="4"), skip_reason=SkipReason(kind="backoff", text="backing off after: quota"))
    reported = StatusSources(nodes=(roomy("n1", cpu="1"),), pending=(pod,), groups=(full, small, waiting))
    answer = explained(reported, pod)
    groups = {word["group"]: word for word in answer["groups"]}  # type: ignore[attr-defined]
    assert groups["full"]["reasons"][0]["code"] == "limit"
    assert groups["small"]["reasons"][0]["short"] == {"milliCPU": 1000}
    assert groups["waiting"]["reasons"][0]["code"] == "backoff"
    changes = [remedy["change"] for remedy in answer["remedies"]]  # type: ignore[attr-defined]
    assert "raise max of group full from 10 to 11" in changes
    assert not [change for change in changes if "small" in change or "waiting" in change]


def test_a_group_that_may_grow_is_a_remedy() -> None:
    pod = a_pod("web", cpu="3")
    reported = StatusSources(nodes=(roomy("n1", cpu="1"),), pending=(pod,), groups=(a_group("pool", a_template(cpu="4")),))
    changes = [remedy["change"] for remedy in explained(reported, pod)["remedies"]]  # type: ignore[attr-defined]
    assert "add a node of group pool" in changes


def test_a_pod_whose_node_is_on_its_way_waits_for_it_and_no_group_is_to_be_changed() -> None:
    pod = a_pod("web", cpu="3")
    coming = a_group("pool", a_template(cpu="4"), size=1, largest=1, upcoming=1)
    reported = StatusSources(nodes=(roomy("n1", cpu="1"),), pending=(pod,), groups=(coming,))
    answer = explain_pod(reported.explain_input(), pod)
    assert [reason.code for reason in answer.reasons] == ["resources_above_node", "node_coming"]
    assert not [remedy for remedy in answer.remedies if "group" in remedy.change]


def test_pods_in_the_way_are_named() -> None:
    term = PodTerm(
        topology_key="kubernetes.io/hostname", selector=(Requirement("app", "In", ("db",)),), namespaces=("default",)
    )
    pod = a_pod("db-2", labels={"app": "db"})
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(anti_affinity=(term,))))
    node = roomy("n1", labels={"kubernetes.io/hostname": "n1"})
    reported = StatusSources(nodes=(node,), running_pods=(a_pod("db-1", on="n1", labels={"app": "db"}),), pending=(pod,))
    answer = explain_pod(reported.explain_input(), pod)
    assert answer.reasons[0].code == "pod_anti_affinity"
    assert answer.reasons[0].objects == ("pod default/db-1",)
    assert "move pod default/db-1 off node n1" in [remedy.change for remedy in answer.remedies]


def test_a_pod_that_fits_waits_for_its_scheduler() -> None:
    pod = a_pod("web")
    tainted = structs.replace(roomy("n2"), taints=(Taint("gpu", "", "NoSchedule"),))
    answer = explained(StatusSources(nodes=(roomy("n1"), tainted), pending=(pod,)), pod)
    assert (answer["state"], answer["remedies"]) == ("schedulable", [])
    reasons = [(reason["code"], reason["nodes"]) for reason in answer["reasons"]]  # type: ignore[attr-defined]
    assert reasons == [("fits_already", 1), ("taint_not_tolerated", 1)]


def test_a_gate_is_reported_before_findings_about_nodes() -> None:
    pod = a_pod("vip")
    word = FilterFacts(reason=Reason.GATED, waits_for=("default/victim",))
    answer = explained(StatusSources(nodes=(roomy("n1"),), pending=(pod,)), pod, word=word)
    assert answer["state"] == "waiting"
    assert answer["reasons"][0]["code"] == "gated"  # type: ignore[index]
    assert answer["reasons"][0]["objects"] == ["pod default/victim"]  # type: ignore[index]


def test_a_node_that_refused_the_bind_is_no_place() -> None:
    pod = a_pod("web")
    reported = StatusSources(nodes=(roomy("n1"),), pending=(pod,))
    answer = explained(reported, pod, word=FilterFacts(denied=frozenset({NodeName("n1")})))
    assert answer["state"] == "pending"
    assert answer["reasons"][0]["code"] == "bind_denied"  # type: ignore[index]


def test_the_answer_for_a_placed_pod_names_its_node() -> None:
    pod = a_pod("web", on="n1")
    answer = explained(StatusSources(nodes=(roomy("n1"),), running_pods=(pod,)), pod)
    assert (answer["state"], answer["reasons"][0]["objects"]) == ("placed", ["node n1"])  # type: ignore[index]


def test_a_missing_claim_is_named_and_has_no_remedy() -> None:
    from slackwater.model.pod_constraints import ClaimMount
    from slackwater.model.storage import Storage

    pod = a_pod("db")
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))
    reported = StatusSources(nodes=(roomy("n1"),), pending=(pod,), storage=Storage(claims={}))
    answer = explained(reported, pod)
    assert answer["reasons"][0]["objects"] == ["claim default/data"]  # type: ignore[index]
    assert answer["remedies"] == []


def test_a_placed_pod_is_compared_with_the_other_nodes_as_of_now() -> None:
    pod = a_pod("web", on="n1", cpu="1")
    fitting = (roomy("n1", cpu="2"), roomy("n2", cpu="8"), roomy("n3", cpu="4"))
    reported = StatusSources(
        nodes=(*fitting, roomy("n4", cpu="1"), roomy("n5", taints=[DEDICATED])),
        running_pods=(pod, a_pod("other", on="n4", cpu="500m")),
    )
    instead = explained(reported, pod)["instead"]
    assert isinstance(instead, dict)
    assert instead["asOf"] == "now"
    assert instead["feasible"] == 2
    assert [each["node"] for each in instead["nodes"]] == ["n2", "n3"], "the emptiest scores best"
    for each in instead["nodes"]:
        assert each["score"] == instead["score"] + sum(each["difference"].values())
        assert each["difference"]["NodeResourcesFit"] > 0
    assert {(reason["code"], reason["nodes"]) for reason in instead["reasons"]} == {
        ("resources_short", 1),
        ("taint_not_tolerated", 1),
    }


def test_of_a_placed_pod_on_the_only_node_nothing_is_said_to_be_better() -> None:
    pod = a_pod("web", on="n1", cpu="1")
    instead = explained(StatusSources(nodes=(roomy("n1", cpu="2"),), running_pods=(pod,)), pod)["instead"]
    assert isinstance(instead, dict)
    assert (instead["feasible"], instead["nodes"], instead["reasons"]) == (0, [], [])


def test_comparing_a_placed_pod_leaves_the_snapshot_as_it_was() -> None:
    pod = a_pod("web", on="n1", cpu="1")
    reported = StatusSources(nodes=(roomy("n1", cpu="2"), roomy("n2", cpu="2")), running_pods=(pod,))
    explain_input = reported.explain_input()
    before = explain_input.snapshot.used.copy()
    first = json_of(explain_pod(explain_input, pod))
    assert (explain_input.snapshot.used == before).all()
    assert json_of(explain_pod(explain_input, pod)) == first


def test_a_pod_on_a_node_that_is_unknown_has_nothing_to_compare() -> None:
    pod = a_pod("web", on="gone", cpu="1")
    assert "instead" not in explained(StatusSources(nodes=(roomy("n1"),)), pod)


def test_a_node_in_quarantine_is_no_alternative() -> None:
    pod = a_pod("web", on="n1", cpu="1")
    reported = StatusSources(nodes=(roomy("n1", cpu="2"), roomy("n2", cpu="2")), running_pods=(pod,))
    instead = explained(reported, pod, word=FilterFacts(quarantined=frozenset({NodeName("n2")})))["instead"]
    assert isinstance(instead, dict)
    assert (instead["feasible"], instead["nodes"]) == (0, [])
    assert [(reason["code"], reason["nodes"]) for reason in instead["reasons"]] == [("node_quarantined", 1)]
