"""Our judgement of devices is that of kube-scheduler's own DynamicResources; `python -m tests.oracle --devices` asks longer.

In sequential mode the devices that each pod gets are compared one by one: so our allocations are those of the real allocator.
"""

from pathlib import Path

import pytest

from tests.oracle.campaign import run
from tests.oracle.generator import Size, generate
from tests.oracle.ours import side
from tests.oracle.real import Mode, running
from tests.oracle.reasons import WANTED_WITH_DEVICES
from tests.support.seeds import examples

pytestmark = pytest.mark.timeout(1200)
_DEVICES = Size(devices=True)


@pytest.mark.parametrize(("mode", "clusters"), [("placement", 120), ("sequential", 80), ("scores", 60)])
def test_devices_are_judged_allocated_and_scored_the_same(program: Path, mode: Mode, clusters: int) -> None:
    outcome = run(program, mode=mode, seed=1, indices=range(clusters), ours=side(mode), size=_DEVICES)
    reported = [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()]
    assert reported == [], f"python -m tests.oracle --devices --clusters {clusters} --{mode} shrinks and shows it"
    if mode == "placement":
        assert list(outcome.event_counts.problems()) == [], outcome.event_counts.table()
        assert set(outcome.event_counts.reasons) >= WANTED_WITH_DEVICES


def test_clusters_with_devices_changed_at_random_are_judged_the_same(program: Path) -> None:
    size = Size(devices=True, mutated=True)
    outcome = run(program, mode="placement", seed=1, indices=range(80), ours=side("placement"), size=size)
    assert [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()] == []
    assert outcome.left_out < 70


def test_random_selectors_are_judged_the_same(program: Path) -> None:
    outcome = run(program, mode="placement", seed=1, indices=range(100), ours=side("placement"), size=Size(selectors=True))
    assert [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()] == []
    assert outcome.left_out < 50


def test_an_api_server_would_hold_every_generated_device_and_claim(program: Path) -> None:
    with running(program, validate=True) as real:
        lines = (line for index in range(examples(120)) for line in real.judge(generate(7, index, _DEVICES)))
        refused = [line["invalid"] for line in lines if "invalid" in line]
    assert refused == []


def test_pods_get_devices_one_after_another(program: Path) -> None:
    with running(program, "sequential") as real:
        lines = [line for i in range(50) for line in real.judge(generate(2, i, _DEVICES))]
    assert sum(len(line.get("devices", ())) for line in lines) > 50
