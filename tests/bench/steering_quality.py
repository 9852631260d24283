"""Where kube-scheduler puts pods by itself, and where steering has it put them: is either better by its own standards?

Pods that want much and insist on nothing (`quality`) wait before the scheduler starts, and with steering all are told before
it does; or, choosing, none is, and one of the few nodes that it filters is chosen when it asks. Slackwater's own score packs
nodes, which kube-scheduler's do not. So there are pairs: kube-scheduler alone beside both where our score says the same of all
nodes, and the service with its default score, unsteered and steering.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import orjson

from tests.bench import contenders
from tests.bench.contenders import ALL_NODES, ALONE
from tests.bench.contest import Contest, a_contest
from tests.bench.nominations import CHOSEN_MET, ended, until_nominated
from tests.bench.options import BenchFailed, Options, ServiceCommand, WriteFrame
from tests.bench.quality import Placements, a_fond_pod, a_varied_node
from tests.bench.report import Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import PODS_PATH

NAME: Final = "steering-quality"

_CHOSEN: Final = "choosing, no score of ours"
_PLAIN: Final = "steering, no score of ours"
_UNSTEERED: Final = "unsteered"
_STEERING: Final = "steering"
_FLAT: Final = "nodes: {score: {minUsage: 1, maxUsage: 1}}\n"
_TOLD: Final = "steering: {minNodes: 0}\n"
_SETTINGS: Final = {
    _CHOSEN: "steering: {minNodes: 1000000}\n" + _FLAT,
    _PLAIN: _TOLD + _FLAT,
    _UNSTEERED: ALL_NODES,
    _STEERING: _TOLD,
}
_PAIRS: Final = ((_CHOSEN, ALONE), (_PLAIN, ALONE), (_STEERING, _UNSTEERED))
#: Chance decides which of equally good nodes it is: a tenth more or less says nothing.
_NO_MORE: Final = Goal(at_most=1.1)
_NO_LESS: Final = Goal(at_least=0.9)
#: Less of it is better; of all others more is.
_UNEVEN: Final = ("CPU spread", "memory spread", "zone skew")
_UNITS: Final = {"CPU spread": "points", "memory spread": "points", "zone skew": "pods"}
#: Nominations and choices met, of all pods: else it is not steering that is judged.
_LEAST_MET: Final = 0.9


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Interleaved: each round runs every contender once, every other round backwards."""
    nodes = options.nodes or (90 if options.quick else 240)
    pods = options.pods or (420 if options.quick else 6300)
    rounds = options.rounds or (1 if options.quick else 3)
    names = [ALONE, *_SETTINGS]
    found: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for number in range(rounds):
        for name in names[:: -1 if number % 2 else 1]:
            judged = await _run(name, options.services[0], nodes=nodes, pods=pods)
            found[name].append(judged)
            tell(f"{NAME} round {number + 1}/{rounds}: {name}: { {what: round(value, 3) for what, value in judged.items()} }")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "pods": pods, "rounds": rounds},
        measurements=tuple(
            Measurement(subject=name, quantity=what, unit=_UNITS.get(what, "share"), samples=tuple(one[what] for one in judged))
            for name, judged in found.items()
            for what in judged[0]
        ),
        ratios=_ratios(found),
        notes=(
            "Spread: the standard deviation over nodes of the share that is requested.",
            "Skew: pods more in the fullest zone than in the emptiest, in the mean of apps.",
        ),
    )


def _ratios(found: Mapping[str, list[Mapping[str, float]]]) -> tuple[Ratio, ...]:
    # A skew may be 0.
    samples = {
        (name, what): [one[what] + (what == "zone skew") for one in judged]
        for name, judged in found.items()
        for what in judged[0]
    }
    return tuple(
        ratio_of(
            f"{what}{' + 1' if what == 'zone skew' else ''}: {steering} / {other}",
            samples[steering, what],
            samples[other, what],
            goal=_NO_MORE if what in _UNEVEN else _NO_LESS,
        )
        for steering, other in _PAIRS
        for what in found[ALONE][0]
    )


async def _run(name: str, command: ServiceCommand, *, nodes: int, pods: int) -> dict[str, float]:
    before = until_nominated if _TOLD in _SETTINGS.get(name, "") else None
    async with a_contest(
        lambda stage: None if name == ALONE else contenders.service(stage, command, more=_SETTINGS[name]),
        nodes=map(a_varied_node, range(nodes)),
        pods=map(a_fond_pod, range(pods)),
        before=before,
    ) as contest:
        await contest.until_bound(pods)
        if name == _CHOSEN or before is not None:
            await _check_steered(contest, pods, what="met" if before is not None else CHOSEN_MET)
        bodies = [a_fond_pod(number) for number in range(pods)]
        return _judged(Placements(nodes, bodies, await _node_of(contest)))


async def _check_steered(contest: Contest, pods: int, *, what: str) -> None:
    assert contest.entrant is not None
    became = await ended(contest.entrant)
    if became[what] < _LEAST_MET * pods:
        raise BenchFailed(f"{NAME}: {became} of {pods} pods, want {_LEAST_MET:.0%} of them {what}")


async def _node_of(contest: Contest) -> dict[str, str]:
    async with contest.stage.api.get(PODS_PATH) as answer:
        answer.raise_for_status()
        items = orjson.loads(await answer.read())["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in items}


def _judged(placements: Placements) -> dict[str, float]:
    return {
        "CPU spread": placements.spread("cpu"),
        "memory spread": placements.spread("memory"),
        "zone skew": placements.zone_skew(),
        "on SSD": placements.on_ssd(),
        "alone": placements.alone(),
        "near": placements.near(),
        "with image": placements.with_image(),
    }
