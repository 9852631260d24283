"""What cleanup takes from an object, what it leaves alone, and that it knows every type that the service may write."""

from typing import Any

import pytest

from slackwater.app import rbac
from slackwater.app.cleanup import (
    TYPES,
    is_managed,
    last_step,
    made_steps,
    managers_without_ours,
    migration_steps,
    node_steps,
    owned_keys,
    owns,
    pod_steps,
    status_steps,
    user_keys,
)
from slackwater.app.settings import loads
from slackwater.model.objects import VICTIM_MESSAGE

_ALL = """\
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
leaderElection: {mode: own}
autoscaler:
  enabled: true
  providers: {clusterapi: {}}
  nodeGroups: [{name: a}]
"""
#: Written for others, by subresources that leave no field of ours: a binding, an eviction, a token review.
_NO_FIELDS = {"pods/binding", "pods/eviction", "tokenreviews"}

Json = dict[str, Any]


def an_object(*, fields: Json | None = None, others: bool = True, **parts: Any) -> Json:
    """An object whose `fields` belong to us."""
    entries = [{"manager": "kubectl", "fieldsV1": {}}] if others else []
    if fields is not None:
        entries.append({"manager": "slackwater", "operation": "Update", "fieldsV1": fields})
    meta = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": entries}
    return {"metadata": {**meta, **parts.pop("metadata", {})}, "spec": {}, **parts}


def test_the_gate_our_nomination_and_our_condition_leave_a_pod() -> None:
    pod = an_object(
        fields={"f:status": {"f:nominatedNodeName": {}}},
        metadata={"annotations": {"slackwater.dev/touched": "now", "slackwater.dev/bounds": "{}", "mine": "1"}},
        spec={"schedulingGates": [{"name": "slackwater.dev/gate"}, {"name": "other"}]},
        status={
            "nominatedNodeName": "n",
            "conditions": [
                {"type": "DisruptionTarget", "message": f"{VICTIM_MESSAGE}ns/high"},
                {"type": "Ready", "message": ""},
            ],
        },
    )
    gate, metadata, status = pod_steps(pod)
    assert gate.patch == {"spec": {"schedulingGates": [{"$patch": "delete", "name": "slackwater.dev/gate"}]}}
    assert metadata.patch == {"metadata": {"annotations": {"slackwater.dev/touched": None}}}
    assert (status.part, status.patch) == (
        "/status",
        {"status": {"nominatedNodeName": None, "conditions": [{"$patch": "delete", "type": "DisruptionTarget"}]}},
    )
    assert user_keys(pod) == ["slackwater.dev/bounds"]


def test_the_condition_that_kube_scheduler_writes_for_our_profile_stays() -> None:
    said = "slackwater: preempting to accommodate a higher priority pod"
    pod = an_object(status={"conditions": [{"type": "DisruptionTarget", "message": said}]})
    assert list(pod_steps(pod)) == []


def test_a_nomination_by_kube_scheduler_stays() -> None:
    pod = an_object(fields={"f:spec": {}}, status={"nominatedNodeName": "n", "conditions": []})
    assert list(pod_steps(pod)) == []


def test_a_node_loses_both_taints_and_our_cordon_and_keeps_those_of_others() -> None:
    taints = [
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
        {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"},
        {"key": "mine", "effect": "NoSchedule"},
    ]
    node = an_object(
        metadata={"annotations": {"slackwater.dev/cordoned": "true"}}, spec={"taints": taints, "unschedulable": True}
    )
    (step,) = node_steps(node)
    assert step.patch == {
        "metadata": {"resourceVersion": "7", "annotations": {"slackwater.dev/cordoned": None}},
        "spec": {"taints": [taints[2]], "unschedulable": None},
    }


def test_a_node_that_a_person_cordoned_stays_cordoned() -> None:
    assert list(node_steps(an_object(spec={"unschedulable": True}))) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"f:data": {".": {}, "f:status": {}}}, ["delete"]),
        ({"f:spec": {".": {}, "f:holderIdentity": {}}}, ["delete"]),
        ({"f:reportingController": {}}, ["delete"]),
        ({"f:data": {"f:status": {}}}, ["remove status"]),
        ({"f:spec": {"f:holderIdentity": {}}}, []),
        (None, []),
    ],
)
def test_what_we_made_is_deleted_and_of_others_objects_only_our_keys_go(fields: Json | None, words: list[str]) -> None:
    assert [step.words for step in made_steps(an_object(fields=fields))] == words


def test_a_migration_under_way_goes_on_without_our_annotation() -> None:
    ours: Json = {"f:spec": {".": {}}}
    running = an_object(fields=ours, metadata={"annotations": {"slackwater.dev/target-node": "n"}}, status={"phase": "Running"})
    assert [step.words for step in migration_steps(running)] == ["remove slackwater.dev/target-node"]
    assert [step.words for step in migration_steps({**running, "status": {"phase": "Succeeded"}})] == ["delete"]
    theirs = an_object(status={"phase": "Succeeded"})
    assert list(migration_steps(theirs)) == []


def test_only_the_fields_of_a_status_that_belong_to_us_go() -> None:
    (step,) = status_steps(an_object(fields={"f:status": {"f:replicas": {}, "f:conditions": {"k:1": {}}}}))
    assert step.patch == {"status": {"conditions": None, "replicas": None}}


def test_the_last_step_leaves_the_entries_of_others_and_resets_a_list_that_has_only_ours() -> None:
    (step,) = last_step(an_object(fields={"f:spec": {}}))
    assert step.patch == {"metadata": {"resourceVersion": "7", "managedFields": [{"manager": "kubectl", "fieldsV1": {}}]}}
    assert managers_without_ours(an_object(fields={}, others=False)) == [{}], "an empty list would be ignored"
    assert list(last_step(an_object())) == []


def test_fields_are_found_by_their_path() -> None:
    item = an_object(fields={"f:data": {".": {}, "f:b": {}, "f:a": {}}})
    assert (owns(item, "f:data"), owns(item, "f:data", "f:c"), is_managed(item)) == (True, False, True)
    assert owned_keys(item, "f:data") == ["a", "b"]


def test_every_type_that_the_service_may_write_is_cleaned() -> None:
    writes = {"create", "update", "patch"}
    roles = [item for item in rbac.rights(loads(_ALL), rbac.user("x")) if "rules" in item]
    written = {
        (rule["apiGroups"][0], resource.partition("/")[0])
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        if writes & set(rule["verbs"]) and resource not in _NO_FIELDS
    }
    assert written == {(cleaned.group, cleaned.name) for cleaned in TYPES}
