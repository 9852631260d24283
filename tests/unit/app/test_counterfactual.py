"""The counterfactual cluster beside a simulated one: what it says that Slackwater would have done is what Slackwater does."""

import gc
import json
from collections import Counter
from typing import Any, Final

import msgspec
import pytest

from slackwater.app.counterfactual.counterfactual import Counterfactual
from slackwater.app.counterfactual.durations import quantile, total
from slackwater.app.counterfactual.lines import SIDES, AnyLine, Decision, ModelCheck, NodeCame, NodeWent, Sample, Side, Waits
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.rounds.virtual_drains import Pace
from slackwater.app.settings import Settings, loads
from slackwater.model.ids import UnixTime
from tests.support.builders import a_pod
from tests.support.containers import sizes
from tests.support.garbage import no_collecting
from tests.support.manifests import node_labels, node_manifest
from tests.support.simulated import SimulatedCluster

START = UnixTime(1_800_000_000.0)
HEAD = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
GROUPS = [
    {
        "name": "g",
        "minSize": 1,
        "maxSize": 200,
        "template": {"status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}},
    }
]
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
QUICK = {"scaleDown": {"enabled": True, "unneededTime": "2m", "delayAfterAdd": "2m"}}
NEVER = {"scaleDown": {"enabled": True, "unneededTime": "100h"}}
HALF_HOUR: Final = 1800.0


def settings_with(**autoscaler: Any) -> Settings:
    document = {**HEAD, "autoscaler": {"enabled": True, "nodeGroups": GROUPS, **autoscaler}}
    return loads(json.dumps(document), source="test")


def one_node() -> Cluster:
    items = [node_manifest("n-0", cpu="8", memory="32Gi", labels=node_labels("n-0", "g"), status=READY)]
    return read_cluster(msgspec.Raw(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()))


def wave(passed: float) -> int:
    """Grows for ten minutes, falls to a fifth, and grows again."""
    if passed < 600:
        return round(8 + passed / 8)
    return round(83 - (passed - 600) / 9) if passed < 1200 else round(16 + (passed - 1200) / 9)


DEMAND = {
    "web": (a_pod("web", cpu="1", memory="1Gi"), wave),
    "cache": (a_pod("cache", cpu="3", memory="2Gi"), lambda passed: 12 if passed < 900 else 2),
}


def a_cluster(settings: Settings) -> SimulatedCluster:
    return SimulatedCluster(one_node(), settings, DEMAND, START)


def beside(real: SimulatedCluster, settings: Settings, seconds: float = HALF_HOUR) -> list[AnyLine]:
    """The log of a shadow with these settings beside a cluster."""
    both = Counterfactual(settings, "test")
    return [line for seen in real.run(UnixTime(START + seconds + 60.0)) for line in both.take(seen)]


def samples(lines: list[AnyLine], side: Side) -> list[Sample]:
    return [line for line in lines if isinstance(line, Sample) and line.side == side]


def node_minutes(lines: list[AnyLine], side: Side) -> int:
    return sum(sample.nodes for sample in samples(lines, side)[1:31])


def evictions(lines: list[AnyLine], side: Side) -> int:
    return sum(sample.evictions for sample in samples(lines, side))


@pytest.fixture(scope="module")
def predicted() -> list[AnyLine]:
    """The log of a shadow beside a cluster that removes nothing."""
    return beside(a_cluster(settings_with(**NEVER)), settings_with(**QUICK))


@pytest.fixture(scope="module")
def served() -> list[AnyLine]:
    """The log of a shadow beside a cluster that does what the shadow would."""
    return beside(a_cluster(settings_with(**QUICK)), settings_with(**QUICK))


def test_what_it_predicts_for_us_is_what_we_do(predicted: list[AnyLine], served: list[AnyLine]) -> None:
    """The real cluster removes nothing; the shadow says what a cluster with other settings then really does."""
    assert node_minutes(predicted, "real") > 1.2 * node_minutes(predicted, "ours")
    assert node_minutes(predicted, "ours") == pytest.approx(node_minutes(served, "real"), rel=0.05)
    assert evictions(predicted, "ours") == pytest.approx(evictions(served, "real"), rel=0.15, abs=2)


def test_beside_itself_both_sides_are_alike(served: list[AnyLine]) -> None:
    assert node_minutes(served, "ours") == pytest.approx(node_minutes(served, "real"), rel=0.05)
    assert evictions(served, "ours") == pytest.approx(evictions(served, "real"), rel=0.15, abs=2)


def test_the_same_observations_give_the_same_log(served: list[AnyLine]) -> None:
    again = beside(a_cluster(settings_with(**QUICK)), settings_with(**QUICK), 600.0)
    assert again == served[: len(again)]


def test_nodes_that_came_and_went_add_up_to_the_samples(served: list[AnyLine]) -> None:
    lines = served
    for side in SIDES:
        nodes, micros = Counter[str](), 0
        prices: dict[str, int] = {}
        for line in lines:
            if isinstance(line, NodeCame) and line.side == side:
                nodes[line.node], prices[line.node] = 1, line.micros
                micros += line.micros
            elif isinstance(line, NodeWent) and line.side == side:
                del nodes[line.node]
                micros -= prices.pop(line.node)
        last = samples(lines, side)[-1]
        later = [line for line in lines if isinstance(line, NodeCame | NodeWent) and line.side == side and line.at >= last.at]
        assert later or (len(nodes), micros) == (last.nodes, last.micros)
    numbers = [line.number for line in lines if isinstance(line, Decision)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    named = {line.decision for line in lines if isinstance(line, NodeCame | NodeWent)} - {None}
    assert named <= set(numbers)


def test_an_hour_ends_with_waits_and_with_the_models_own_error() -> None:
    real = a_cluster(settings_with(**QUICK))
    both = Counterfactual(settings_with(**QUICK), "test")
    lines = [line for seen in real.run(UnixTime(START + 3700.0), step=20.0) for line in both.take(seen)]
    (check,) = (line for line in lines if isinstance(line, ModelCheck))
    assert check.seconds == pytest.approx(3600.0, abs=20.0)
    real_wait, modelled = (quantile(waits, 0.95) for waits in (check.real_waits, check.modelled_waits))
    assert real_wait == pytest.approx(modelled, rel=0.2)
    assert {line.side for line in lines if isinstance(line, Waits)} == {"real", "ours"}
    by_priority = [line.seconds for line in lines if isinstance(line, Waits) and line.side == "real"]
    assert total(each for waits in by_priority for each in waits.values()) == check.real_waits


def test_our_first_node_takes_as_long_as_the_real_one() -> None:
    """It is ordered before the real one is ready, and due before it is played that the real one was."""
    real = SimulatedCluster(one_node(), settings_with(**NEVER), DEMAND, START, pace=Pace(node_boot=40.0))
    lines = beside(real, settings_with(**NEVER), 120.0)
    decided = {line.number: line.at for line in lines if isinstance(line, Decision) and line.side == "ours"}
    came = [line for line in lines if isinstance(line, NodeCame) and line.side == "ours" and line.decision]
    assert came[0].decision is not None
    assert came[0].at - decided[came[0].decision] == pytest.approx(40.0, abs=3.0)


#: What grows up to a bound of its own, and the most that it may have here.
BOUNDED = {
    "PacesSeen._removals": 64,  # the newest ones
    "RowJournal._rows": 4 * 2 * 1_024,  # two for each row, or these; four journals
    "ValueColumn._number_of": 4 * 200,  # two for each row, and 64; of labels, and of taints with times in them
    "ValueColumn.values": 4 * 200,
}


def test_hour_after_hour_it_keeps_the_same() -> None:
    """A shadow runs for months. Each hour is like the last one, with names and UIDs of its own, and what it leaves behind goes
    without a collection of garbage: in a small cluster there may be one a day."""
    settings, hour = settings_with(**QUICK), 3600.0
    demand = {
        "web": (a_pod("web", cpu="1", memory="1Gi"), lambda passed: 10 + 30 * (passed % hour < 1500)),
        "cache": (a_pod("cache", cpu="3", memory="2Gi"), lambda passed: 2 + 6 * (600 < passed % hour < 2400)),
    }
    real, both = SimulatedCluster(one_node(), settings, demand, START), Counterfactual(settings, "test")
    kept, ours = list[Counter[str]](), list[AnyLine]()
    with no_collecting():
        for seen in real.run(UnixTime(START + 4 * hour + 90.0), step=30.0):
            lines = both.take(seen)
            ours += (line for line in lines if isinstance(line, Sample | NodeCame) and line.side == "ours")
            if any(isinstance(line, ModelCheck) for line in lines):
                kept.append(sizes(both) + ours_by_kind())
    assert len(kept) == 4
    assert evictions(ours, "ours") > 20
    assert sum(isinstance(line, NodeCame) for line in ours) > 20
    history = {place: [each[place] for each in kept[1:]] for place in kept[-1]}
    grown = {place: sizes for place, sizes in history.items() if sizes == sorted(set(sizes))}
    assert {place: sizes for place, sizes in grown.items() if sizes[-1] > BOUNDED.get(place, 0)} == {}


def ours_by_kind() -> Counter[str]:
    """The objects of our own types that there are, reachable or not."""
    # A class may have a descriptor in place of the name of its module.
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in map(type, gc.get_objects()))
    return Counter(name for name in names if name.startswith("slackwater."))
