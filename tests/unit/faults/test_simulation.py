"""The simulation itself: a run is the same each time, and what is broken on purpose is noticed."""

import sys

import pytest

from tests.faults.__main__ import main
from tests.faults.mechanisms import MECHANISMS, Mechanism, broken
from tests.faults.play import Script, play
from tests.faults.provider_faults import FAULTS
from tests.faults.shrink import shrunk


def test_a_run_is_the_same_each_time() -> None:
    first, again = (play(Script(seed=11, seconds=10)) for _ in range(2))
    assert first.broken is None
    assert first.steps > 100
    assert (again.digest, again.steps) == (first.digest, first.steps)
    assert play(Script(seed=12, seconds=10)).digest != first.digest


@pytest.mark.parametrize("seed", range(21, 23))
def test_laws_hold_in_a_storm(seed: int) -> None:
    found = play(Script(seed=seed))
    assert found.broken is None, f"{found.broken}: python -m tests.faults --seed {seed}"


def test_a_permit_beyond_what_was_asked_is_noticed_and_the_run_shrunk() -> None:
    few_left = frozenset(sorted(FAULTS)[3:])
    scripts = (Script(seed=seed, seconds=10, without=few_left) for seed in range(1, 50))
    script = next(script for script in scripts if _broken(script) == "S3")

    def run(smaller: Script) -> object:
        with broken("permit-bounds"):
            return play(smaller)

    small = shrunk(script, "S3", run)  # type: ignore[arg-type]
    assert _broken(small) == "S3"
    assert small.seconds <= script.seconds
    assert small.without == frozenset(FAULTS), "no fault is needed for it"
    assert play(script).broken is None, "and nothing stays broken"


def test_a_mechanism_is_broken_only_until_that_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tests.faults", "--break", "permit-bounds"])
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("permit-bounds: noticed by S3")
    assert lines[-2].endswith(" violations=1"), "and no other run was played beside it"


def test_there_are_mechanisms_to_break() -> None:
    assert len(MECHANISMS) >= 10


def test_a_mechanism_whose_function_was_renamed_is_refused() -> None:
    with pytest.raises(LookupError, match=r"mechanism gone: Play has no function renamed"):
        Mechanism(name="gone", law="S1", what="nothing", patches=((type("Play", (), {}), "renamed", lambda found: found),))


def _broken(script: Script) -> str | None:
    with broken("permit-bounds"):
        found = play(script).broken
    return None if found is None else found.law
