"""Where kube-scheduler puts pods by itself, and where node choice puts them: is either better by kube-scheduler's standards?

Pods that want much and insist on nothing (`quality`) wait before the scheduler starts; one of the few nodes that it filters is
chosen when it asks. Slackwater's own score packs nodes, which kube-scheduler's do not, so here it says the same of all nodes.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import anyio
import orjson

from tests.bench import contenders
from tests.bench.choices import CHOSEN_MET, choices
from tests.bench.contenders import ALONE, Entrant
from tests.bench.contest import Contest, a_contest
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, Options, ServiceCommand, WriteFrame
from tests.bench.quality import Placements, a_fond_pod, a_varied_node
from tests.bench.report import Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import PODS_PATH

NAME: Final = "choice-quality"

_CHOSEN: Final = "choosing, no score of ours"
_FLAT: Final = "nodes: {score: {minUsage: 1, maxUsage: 1}}\n"
#: Chance decides which of equally good nodes it is: a tenth more or less says nothing.
_NO_MORE: Final = Goal(at_most=1.1)
_NO_LESS: Final = Goal(at_least=0.9)
#: Less of it is better; of all others more is.
_UNEVEN: Final = ("CPU spread", "memory spread", "zone skew")
_UNITS: Final = {"CPU spread": "points", "memory spread": "points", "zone skew": "pods"}
#: Pods bound to their chosen node, of all pods: else it is not node choice that is judged.
_LEAST_MET: Final = 0.9
_LOOK_EVERY_SECONDS: Final = 0.5


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Interleaved: each round runs every contender once, every other round backwards."""
    nodes = options.nodes or (90 if options.quick else 240)
    pods = options.pods or (420 if options.quick else 6300)
    rounds = options.rounds or (1 if options.quick else 3)
    names = [ALONE, _CHOSEN]
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
            f"{what}{' + 1' if what == 'zone skew' else ''}: {_CHOSEN} / {ALONE}",
            samples[_CHOSEN, what],
            samples[ALONE, what],
            goal=_NO_MORE if what in _UNEVEN else _NO_LESS,
        )
        for what in found[ALONE][0]
    )


async def _run(name: str, command: ServiceCommand, *, nodes: int, pods: int) -> dict[str, float]:
    async with a_contest(
        lambda stage: None if name == ALONE else contenders.service(stage, command, more=_FLAT),
        nodes=map(a_varied_node, range(nodes)),
        pods=map(a_fond_pod, range(pods)),
    ) as contest:
        await contest.until_bound(pods)
        if contest.entrant is not None:
            await _until_met(contest.entrant, pods)
        bodies = [a_fond_pod(number) for number in range(pods)]
        return _judged(Placements(nodes, bodies, await _node_of(contest)))


async def _until_met(entrant: Entrant, pods: int) -> None:
    found: dict[str, float] = {}
    with anyio.move_on_after(PATIENCE_SECONDS):
        while True:
            found = await choices(entrant)
            if found[CHOSEN_MET] >= _LEAST_MET * pods:
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise BenchFailed(f"{NAME}: {found} of {pods} pods, want {_LEAST_MET:.0%} of them {CHOSEN_MET}")


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
