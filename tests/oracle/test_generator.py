"""What the generator promises: valid objects, the same ones again. What it leaves out, test_agreement.py would show."""

from pathlib import Path

from tests.oracle.generator import generate
from tests.oracle.real import running
from tests.support.seeds import examples


def test_an_api_server_would_hold_every_generated_object(program: Path) -> None:
    with running(program, validate=True) as real:
        refused = [line["invalid"] for i in range(examples(1000)) for line in real.judge(generate(7, i)) if "invalid" in line]
    assert refused == []


def test_a_seed_and_a_number_name_one_cluster() -> None:
    assert generate(3, 5) == generate(3, 5)
    assert generate(3, 5) != generate(3, 6)
    assert generate(3, 5) != generate(4, 5)
