"""Whatever happens, in whatever order: what a state machine was told and asked, told and asked again, comes to the same
answers."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from slackwater.controllers.policy import Policy
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record.replay import Replay
from tests.laws import test_growth_laws, test_preemption_laws, test_state_machine_laws
from tests.support import draining, growing, installed, preempting

FEW = settings(
    max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
)
#: Where the machines make their worlds.
MAKERS = (test_state_machine_laws, growing, preempting, draining)
MACHINES = (
    test_state_machine_laws.StateMachineRules,
    test_state_machine_laws.WhereWeBind,
    test_growth_laws.GrowthMachine,
    test_preemption_laws.PreemptionMachine,
)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_record_replays_without_a_difference(machine: type[RuleBasedStateMachine], monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[list[bytes]] = []
    decisions = 0

    def made(policy: Policy | None = None, *, seed: int = 0) -> RecordedStateMachine:
        records.append([])
        return RecordedStateMachine(policy or installed.POLICY, seed=seed, write_frame=records[-1].append)

    for module in MAKERS:
        monkeypatch.setattr(module, "StateMachine", made)

    class Replayed(machine):  # type: ignore[misc, valid-type]
        def teardown(self) -> None:
            nonlocal decisions
            super().teardown()
            for frames in records:
                replay = Replay(frames)
                differences: list[Any] = list(replay.differences())
                assert not differences, differences[0]
                decisions += replay.decisions
            records.clear()

    run_state_machine_as_test(Replayed, settings=FEW)
    assert decisions > 30
