"""What the generator promises: valid objects, the same ones again, nothing left out."""

from pathlib import Path

from tests.oracle.campaign import run
from tests.oracle.generator import generate
from tests.oracle.real import running
from tests.oracle.tally import ENOUGH_CLUSTERS


def test_an_api_server_would_hold_every_generated_object(program: Path) -> None:
    with running(program, validate=True) as real:
        refused = [line["invalid"] for i in range(1000) for line in real.judge(generate(7, i)) if "invalid" in line]
    assert refused == []


def test_a_seed_and_a_number_name_one_cluster() -> None:
    assert generate(3, 5) == generate(3, 5)
    assert generate(3, 5) != generate(3, 6)
    assert generate(3, 5) != generate(4, 5)


def test_every_plug_in_rejects_often_enough_and_every_reason_occurs(program: Path) -> None:
    outcome = run(program, mode="placement", seed=1, indices=range(ENOUGH_CLUSTERS), ours=None)
    assert list(outcome.tally.problems()) == [], outcome.tally.table()
