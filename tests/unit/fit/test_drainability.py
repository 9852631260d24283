"""The rules of who may be moved off a node, in their order, and the two order traps that are not ours."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from slackwater.fit.drainability import DrainabilityOutcome, DrainPolicy, RuleFacts, Verdict, judge
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import UnixTime
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.builders import a_budget, a_pod, a_vertical

CREATED = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # as builders have it
HOUR = 3600.0
REPLICA_SET = Owner("apps", "ReplicaSet", "web")
OWNED = EvictionFacts(owner=REPLICA_SET)
MOVE, DAEMON, SKIP, WAIT = (
    Verdict(outcome)
    for outcome in (DrainabilityOutcome.MOVE, DrainabilityOutcome.DAEMON, DrainabilityOutcome.SKIP, DrainabilityOutcome.WAIT)
)
SPENT = a_budget("web", allowed=0, app="web")
SPENT_SYSTEM = a_budget("dns", allowed=0, namespace="kube-system", app="web")


def blocked(unremovable_reason: UnremovableReason) -> Verdict:
    return Verdict(DrainabilityOutcome.BLOCK, unremovable_reason)


def an_owned_pod(namespace: str = "default", eviction_facts: EvictionFacts = OWNED) -> Pod:
    return structs.replace(a_pod("p", on="n1", namespace=namespace, labels={"app": "web"}), eviction_facts=eviction_facts)


def facts(
    *budgets: DisruptionBudget,
    at: float = CREATED,
    policy: DrainPolicy | None = None,
    replicas: dict[ControllerKey, int] | None = None,
) -> RuleFacts:
    return RuleFacts(
        now=UnixTime(at), policy=policy or installed.BLOCKED_BY, disruptions=Disruptions(budgets), replicas=replicas
    )


def test_a_replica_may_be_moved() -> None:
    assert judge(an_owned_pod(), facts()) == MOVE


def test_a_mirror_pod_goes_with_its_node() -> None:
    assert judge(an_owned_pod(eviction_facts=EvictionFacts(mirror_pod=True, safe_to_evict="false")), facts(SPENT)) == SKIP


def test_an_overdue_pod_blocks_no_removal() -> None:
    late = structs.replace(an_owned_pod(eviction_facts=EvictionFacts()), deleting=True, overdue_at=UnixTime(1000.0))
    assert judge(late, facts(at=1030.0)) == blocked(UnremovableReason.NOT_REPLICATED)
    assert judge(late, facts(at=1030.5)) == SKIP


CUSTOM = replace(installed.BLOCKED_BY, custom_controllers=True, min_replicas=2)


@pytest.mark.parametrize(
    ("owner", "replicas", "want"),
    [
        (REPLICA_SET, {}, blocked(UnremovableReason.CONTROLLER_NOT_FOUND)),
        (REPLICA_SET, {("other", REPLICA_SET): 9}, blocked(UnremovableReason.CONTROLLER_NOT_FOUND)),
        (REPLICA_SET, {("default", REPLICA_SET): 1}, blocked(UnremovableReason.MIN_REPLICAS_REACHED)),
        (REPLICA_SET, {("default", REPLICA_SET): 2}, MOVE),
        (REPLICA_SET, None, MOVE),
        (Owner("batch", "Job", "j"), {("default", Owner("batch", "Job", "j")): 0}, MOVE),
        (Owner("apps", "StatefulSet", "s"), {}, blocked(UnremovableReason.CONTROLLER_NOT_FOUND)),
        (Owner("apps", "DaemonSet", "d"), {}, blocked(UnremovableReason.CONTROLLER_NOT_FOUND)),
        (Owner("apps", "DaemonSet", "d"), {("default", Owner("apps", "DaemonSet", "d")): 0}, DAEMON),
        (Owner("example.com", "Robot", "r"), {}, blocked(UnremovableReason.NOT_REPLICATED)),
    ],
)
def test_where_custom_controllers_block_the_controller_must_be_there(
    owner: Owner, replicas: dict[ControllerKey, int] | None, want: Verdict
) -> None:
    assert judge(an_owned_pod(eviction_facts=EvictionFacts(owner=owner)), facts(policy=CUSTOM, replicas=replicas)) == want


def test_a_custom_controller_does_by_default() -> None:
    assert (
        judge(an_owned_pod(eviction_facts=EvictionFacts(owner=Owner("example.com", "Robot", "r"))), facts(replicas={})) == MOVE
    )


@pytest.mark.parametrize("eviction_facts", [EvictionFacts(owner=Owner("apps", "DaemonSet", "d")), EvictionFacts(daemon=True)])
def test_a_daemon_needs_no_other_place(eviction_facts: EvictionFacts) -> None:
    assert (
        judge(an_owned_pod(eviction_facts=replace(eviction_facts, safe_to_evict="false", local_volumes=("v",))), facts(SPENT))
        == DAEMON
    )


def test_a_pod_that_has_ended_is_never_moved() -> None:
    for eviction_facts in (EvictionFacts(), OWNED, EvictionFacts(safe_to_evict="true")):
        assert judge(structs.replace(an_owned_pod(eviction_facts=eviction_facts), ended=True), facts(SPENT)) == SKIP


def test_safe_to_evict_overrides_every_rule_about_the_pod_itself() -> None:
    eviction_facts = EvictionFacts(safe_to_evict="true", local_volumes=("scratch",))
    assert judge(an_owned_pod("kube-system", eviction_facts), facts()) == MOVE


def test_a_node_waits_for_pods_that_ask_for_it() -> None:
    assert judge(an_owned_pod(eviction_facts=EvictionFacts(safe_to_evict="on-completion")), facts(SPENT)) == WAIT


def test_a_pod_without_a_controller_blocks() -> None:
    assert judge(an_owned_pod(eviction_facts=EvictionFacts()), facts()) == blocked(UnremovableReason.NOT_REPLICATED)


def test_a_young_pod_of_kube_system_needs_a_budget() -> None:
    pod = an_owned_pod("kube-system")
    want = blocked(UnremovableReason.UNMOVABLE_SYSTEM_POD)
    assert judge(pod, facts()) == want
    assert judge(pod, facts(at=CREATED + HOUR)) == want
    assert judge(pod, facts(at=CREATED + HOUR + 1)) == MOVE
    assert judge(pod, facts(structs.replace(SPENT_SYSTEM, disruptions_allowed=1))) == MOVE
    assert judge(pod, facts(a_budget("other", allowed=1, namespace="kube-system", app="other"))) == want
    assert judge(pod, facts(policy=replace(installed.BLOCKED_BY, system_pods=False))) == MOVE


@pytest.mark.parametrize(
    ("eviction_facts", "want"),
    [
        (replace(OWNED, safe_to_evict="false"), UnremovableReason.NOT_SAFE_TO_EVICT),
        (replace(OWNED, local_volumes=("scratch",)), UnremovableReason.LOCAL_STORAGE),
    ],
)
def test_an_old_pod_of_kube_system_still_meets_the_later_rules(eviction_facts: EvictionFacts, want: UnremovableReason) -> None:
    assert judge(an_owned_pod("kube-system", eviction_facts), facts(at=CREATED + 2 * HOUR)) == blocked(want)


def test_a_pod_that_must_not_be_moved_blocks() -> None:
    eviction_facts = replace(OWNED, safe_to_evict="false", local_volumes=("scratch",))
    assert judge(an_owned_pod(eviction_facts=eviction_facts), facts(SPENT)) == blocked(UnremovableReason.NOT_SAFE_TO_EVICT)


PROTECTED = replace(OWNED, do_not_disrupt=math.inf)


@pytest.mark.parametrize(
    "eviction_facts",
    [
        PROTECTED,
        replace(PROTECTED, safe_to_evict="true"),
        replace(PROTECTED, safe_to_evict="on-completion"),
        replace(PROTECTED, mirror_pod=True),
        replace(PROTECTED, daemon=True),
        replace(PROTECTED, owner=Owner("apps", "DaemonSet", "agent")),
    ],
)
def test_a_pod_that_must_not_be_disrupted_blocks_while_it_is_active(eviction_facts: EvictionFacts) -> None:
    pod = an_owned_pod(eviction_facts=eviction_facts)
    want = blocked(UnremovableReason.DO_NOT_DISRUPT)
    assert judge(pod, facts()) == want
    assert judge(structs.replace(pod, priority=-100), facts()) == want
    machine = replace(a_vertical(), auto_migrate=True, machine="vm")
    assert judge(structs.replace(pod, vertical=machine), facts()) == want
    assert judge(structs.replace(pod, starting=True), facts()) == want
    assert judge(structs.replace(pod, ended=True), facts()) != want
    assert judge(structs.replace(pod, deleting=True), facts()) != want


def test_a_protection_for_a_time_ends_so_long_after_the_pods_start() -> None:
    pod = an_owned_pod(eviction_facts=replace(OWNED, do_not_disrupt=HOUR))
    started = structs.replace(pod, started_at="2026-01-01T00:30:00Z")
    both = facts(at=CREATED + 1.5 * HOUR)
    assert judge(started, facts(at=CREATED + 1.5 * HOUR - 1)) == blocked(UnremovableReason.DO_NOT_DISRUPT)
    assert judge(started, both) == MOVE
    assert judge(structs.replace(pod, started_at=""), both) == blocked(
        UnremovableReason.DO_NOT_DISRUPT
    )  # not by a replica's verdict


def test_local_storage_blocks_unless_it_may_be_lost() -> None:
    pod = an_owned_pod(eviction_facts=replace(OWNED, local_volumes=("scratch",)))
    assert judge(pod, facts(SPENT)) == blocked(UnremovableReason.LOCAL_STORAGE)
    assert judge(pod, facts(policy=replace(installed.BLOCKED_BY, local_storage=False))) == MOVE


@pytest.mark.parametrize("eviction_facts", [OWNED, EvictionFacts(safe_to_evict="true")], ids=["a replica", "safe to evict"])
def test_budgets_are_judged_last_for_every_pod_that_has_to_move(eviction_facts: EvictionFacts) -> None:
    pod = an_owned_pod(eviction_facts=eviction_facts)
    assert judge(pod, facts(SPENT)) == blocked(UnremovableReason.NOT_ENOUGH_PDB)
    assert judge(pod, facts(structs.replace(SPENT, disruptions_allowed=1))) == MOVE
    assert judge(structs.replace(pod, deleting=True), facts(SPENT)) == MOVE


@pytest.mark.parametrize("allowed", [0, 5])
def test_the_eviction_api_never_evicts_a_pod_of_two_budgets(allowed: int) -> None:
    both = facts(a_budget("all", allowed=5), structs.replace(SPENT, disruptions_allowed=allowed))
    pod = an_owned_pod()
    assert judge(pod, both) == blocked(UnremovableReason.MULTIPLE_PDBS)
    assert judge(structs.replace(pod, ready=False), both) == blocked(UnremovableReason.MULTIPLE_PDBS)
    assert judge(structs.replace(pod, starting=True), both) == MOVE  # the API asks no budget about a pod that is Pending
    assert judge(structs.replace(pod, deleting=True), both) == MOVE
    migrating = structs.replace(pod, vertical=replace(a_vertical(), auto_migrate=True, machine="vm"))
    assert judge(migrating, facts(a_budget("all", allowed=5), a_budget("web", allowed=5, app="web"))) == MOVE
    evicted = facts(
        a_budget("all", allowed=5), a_budget("web", allowed=5), policy=replace(installed.BLOCKED_BY, machines_migrate=False)
    )
    assert judge(structs.replace(migrating, vertical=replace(a_vertical(), machine=None)), evicted) == blocked(
        UnremovableReason.MULTIPLE_PDBS
    )


@pytest.mark.parametrize(
    ("change", "may_go", "want"),
    [
        ({"ready": False}, False, blocked(UnremovableReason.NOT_ENOUGH_PDB)),
        ({"ready": False}, True, MOVE),
        ({"ready": True}, True, blocked(UnremovableReason.NOT_ENOUGH_PDB)),
        ({"ready": False, "starting": True}, False, MOVE),
    ],
)
def test_a_pod_that_is_not_ready_goes_where_its_budget_lets_it(change: dict[str, Any], may_go: bool, want: Verdict) -> None:
    assert judge(structs.replace(an_owned_pod(), **change), facts(structs.replace(SPENT, unready_may_go=may_go))) == want


@pytest.mark.parametrize(
    "eviction_facts", [EvictionFacts(), EvictionFacts(owner=REPLICA_SET, safe_to_evict="false"), OWNED], ids=str
)
def test_an_expendable_pod_goes_with_its_node_whatever_else_is_true_of_it(eviction_facts: EvictionFacts) -> None:
    """Verdicts are kept by the ties, which say nothing of priorities: each order of asking must answer the same."""
    pod = an_owned_pod(eviction_facts=eviction_facts)
    for cutoff in (-10, 0, 1000):
        some = facts(SPENT, policy=replace(installed.BLOCKED_BY, expendable_pods_priority_cutoff=cutoff))
        assert judge(structs.replace(pod, priority=cutoff - 1), some) == DAEMON
        assert judge(structs.replace(pod, priority=cutoff), some).outcome is DrainabilityOutcome.BLOCK
        assert judge(structs.replace(pod, priority=cutoff - 1), some) == DAEMON


def test_rules_that_need_budgets_are_skipped_where_nothing_is_known_of_them() -> None:
    assert judge(an_owned_pod("kube-system"), RuleFacts(now=UnixTime(CREATED), policy=installed.BLOCKED_BY)) == MOVE


def test_every_unremovable_reason_has_a_text() -> None:
    assert all(reason.text for reason in UnremovableReason)
