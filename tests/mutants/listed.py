"""The mutants: one wrong edit each that the tests once did not notice, with the test that fails for it now.

`old` stands exactly once in `file`; `new` replaces it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Where the mutated package is.
SOURCES: Final = Path(__file__).parents[2] / "service" / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`file` is relative to the package. `test`: the node id of the test that notices the mutant."""

    name: str
    file: str
    old: str
    new: str
    test: str

    @property
    def path(self) -> Path:
        return SOURCES / "slackwater" / self.file

    def mutated(self) -> str:
        """The file's text with the edit. Raises ValueError if `old` does not stand in the file exactly once."""
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"mutant {self.name}: {self.file} has {text.count(self.old)} places {self.old!r}, want 1")
        return text.replace(self.old, self.new)


MUTANTS: Final = (
    Mutant(
        name="a standby writes through LedApi",
        file="adapters/kube/client.py",
        old="and call.path != REVIEWS_PATH and not self._leads():",
        new="and call.path != REVIEWS_PATH and False:",
        test="tests/unit/adapters/kube/test_client.py::test_a_replica_that_does_not_lead_sends_reads_and_token_reviews_only",
    ),
    Mutant(
        name="leadership counts from the renewal's answer",
        file="controllers/leadership/elector.py",
        old="self._leadership.extend(Instant(began_at + self._config.renew_seconds))",
        new="self._leadership.extend(Instant(self._clock() + self._config.renew_seconds))",
        test="tests/unit/controllers/leadership/test_elector.py::test_leadership_counts_from_the_beginning_of_a_slow_renewal",
    ),
    Mutant(
        name="a standby submits effects",
        file="runtime/intake.py",
        old="        if not self._standby:\n            assert self._dispatcher is not None",
        new="        if True:\n            assert self._dispatcher is not None",
        test="tests/unit/runtime/test_intake.py::test_a_standby_submits_nothing_and_its_ticks_decide_nothing",
    ),
    Mutant(
        name="a standby decides on ticks",
        file="runtime/intake.py",
        old="self.take(StandbyTimePassed() if self._standby else TimePassed())",
        new="self.take(TimePassed())",
        test="tests/unit/runtime/test_intake.py::test_a_standby_submits_nothing_and_its_ticks_decide_nothing",
    ),
    Mutant(
        name="a quarantined node is chosen",
        file="runtime/flows/filter.py",
        old="            and not len(self._state.quarantine)\n",
        new="",
        test="tests/scenarios/test_unreadable_objects.py::test_a_quarantined_node_is_never_the_one_that_filter_names",
    ),
    Mutant(
        name="planners do not hear of preemptors that wait for their victims",
        file="runtime/change_collector.py",
        old="awaiting_victims=frozenset(self._state_machine.preemptions.gated_pods()),",
        new="awaiting_victims=frozenset(),",
        test="tests/unit/runtime/test_change_collector.py::test_no_node_is_bought_for_a_preemptor_whose_victims_are_leaving",
    ),
    Mutant(
        name="scale-up counts preemptors that wait for their victims",
        file="controllers/loop_plans.py",
        old="reserved=replica.awaiting_victims",
        new="reserved=frozenset()",
        test="tests/unit/runtime/test_change_collector.py::test_no_node_is_bought_for_a_preemptor_whose_victims_are_leaving",
    ),
    Mutant(
        name="a permit is written without the test of the former text",
        file="adapters/kube/vertical_writer.py",
        old='            {"op": "test", "path": _PERMIT_POINTER, "value": effect.before},\n',
        new="",
        test="tests/unit/adapters/kube/test_vertical_writer.py::test_a_late_permit_does_not_overwrite_a_newer_one",
    ),
    Mutant(
        name="a permit is written to another object of the same name",
        file="adapters/kube/vertical_writer.py",
        old='        {"op": "test", "path": "/metadata/uid", "value": effect.uid},\n',
        new="",
        test="tests/unit/adapters/kube/test_vertical_writer.py::test_a_late_permit_does_not_overwrite_a_newer_one",
    ),
    Mutant(
        name="the node of an unreadable pod's reservation stays open",
        file="controllers/audit/repair.py",
        old="node = event.node if reservation is None else reservation.node",
        new="node = event.node",
        test="tests/scenarios/test_unreadable_objects.py::test_an_unreadable_pod_closes_the_node_that_it_was_bound_to",
    ),
    Mutant(
        name="the preempt verb keeps a node whose bind was denied",
        file="controllers/preemption/extender_candidates.py",
        old="        denied = set(self._state.bind_backoff.nodes_denied(pod.uid, now))\n        kept: Kept = {}",
        new="        denied: set[NodeName] = set()\n        kept: Kept = {}",
        test="tests/scenarios/test_the_life_of_a_bind.py::test_the_preempt_verb_drops_a_node_whose_bind_was_denied",
    ),
    Mutant(
        name="a hold stays when the source is gone before its migration exists",
        file="controllers/migration/state.py",
        old="        if key is not None and not self.migrations[key].created:\n",
        new="        if False:\n",
        test="tests/scenarios/test_the_life_of_a_migration.py::test_a_source_that_goes_before_its_migration_exists_holds_nothing",
    ),
    Mutant(
        name="room blocked by persisted permits asks for no lower ones",
        file="runtime/flows/filter.py",
        old="        if wanting:\n            for row in rows[short].tolist():",
        new="        if False:\n            for row in rows[short].tolist():",
        test="tests/scenarios/test_kube_scheduler_binds.py::test_room_that_persisted_permits_block_is_asked_back_and_then_fits",
    ),
    Mutant(
        name="a former leader goes on writing",
        file="runtime/dispatcher.py",
        old="(self._config.flush_seconds if self._leads() else 0.0)",
        new="self._config.flush_seconds",
        test="tests/unit/runtime/test_dispatcher.py::test_a_former_leader_ends_its_writes_at_once",
    ),
    Mutant(
        name="an older version of a pod is accepted",
        file="cluster/pods.py",
        old=" or (known is not None and known.resource_version > pod.resource_version):",
        new=":",
        test="tests/scenarios/test_the_life_of_a_bind.py::test_an_older_version_of_a_pod_changes_nothing",
    ),
    Mutant(
        name="disruption budgets do not count for our own victims",
        file="controllers/preemption/victims.py",
        old="        if len(self._state.budgets):",
        new="        if False:",
        test="tests/scenarios/test_the_life_of_a_preemption.py::test_victims_whose_budget_allows_it_go_first",
    ),
    Mutant(
        name="victims that violate a budget are not spared first",
        file="controllers/preemption/victims.py",
        old="return leaving, leaving or not potential_victim.violates_budget, *importance(potential_victim)",
        new="return leaving, False, *importance(potential_victim)",
        test="tests/scenarios/test_the_life_of_a_preemption.py::test_victims_whose_budget_allows_it_go_first",
    ),
    Mutant(
        name="drains' migrations keep no place free",
        file="controllers/migration/drain_migrations.py",
        old="self._migrating.choice.places_kept = len(self.waiting)",
        new="self._migrating.choice.places_kept = 0",
        test="tests/scenarios/test_the_life_of_a_migration.py::test_a_place_is_kept_for_a_machine_that_waits_to_leave_a_drained_node",
    ),
    Mutant(
        name="target nodes are compared by absolute amounts",
        file="controllers/migration/migration_choice.py",
        old="fullness = (after / np.maximum(columns.total[:, fitting], 1)).max(axis=0)",
        new="fullness = after.max(axis=0)",
        test="tests/scenarios/test_the_life_of_a_migration.py::test_the_target_is_the_node_that_is_least_full_by_share",
    ),
    Mutant(
        name="since 1.37 the actual amounts of a resize do not count",
        file="adapters/kube/pod_requests.py",
        old="        reported = [_of_all(spec, allocated_of), _of_all(spec, actual_of)]",
        new="        reported = [_of_all(spec, allocated_of), _of_all(spec, allocated_of)]",
        test="tests/unit/adapters/kube/test_requests.py::test_since_1_37_a_resize_counts_by_the_largest_sum",
    ),
    Mutant(
        name="since 1.37 the allocated amounts of a resize do not count",
        file="adapters/kube/pod_requests.py",
        old="        reported = [_of_all(spec, allocated_of), _of_all(spec, actual_of)]",
        new="        reported = [_of_all(spec, actual_of), _of_all(spec, actual_of)]",
        test="tests/unit/adapters/kube/test_requests.py::test_since_1_37_a_resize_counts_by_the_largest_sum",
    ),
    Mutant(
        name="since 1.37 an infeasible resize counts by its spec",
        file="adapters/kube/pod_requests.py",
        old="    return reported if infeasible else [asked, *reported]",
        new="    return [asked, *reported]",
        test="tests/unit/adapters/kube/test_requests.py::test_since_1_37_a_resize_counts_by_the_largest_sum",
    ),
    Mutant(
        name="holds never end",
        file="cluster/holds.py",
        old="        for key in due:\n            self.drop(key)\n        self._expires_at",
        new="        self._expires_at",
        test="tests/scenarios/test_the_life_of_a_bind.py::test_the_room_of_a_nomination_ends_after_its_time_and_is_free",
    ),
)
