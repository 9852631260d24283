"""Slackwater beside the real Karpenter, on the same control plane, types, prices and pods.

    python -m tests.bench.karpenter [--pods 1000] [--rounds 3] [--largest 32] [-o json]
    python -m tests.bench.karpenter --after-fall --rounds 1

Sides take turns; the figures are medians of the rounds. With --after-fall 60 % of the pods end after the burst, and Karpenter
runs with its default consolidationPolicy and with Balanced, Slackwater with consolidation. Like Karpenter's default, the side
"slackwater, any saving" moves pods for any saving. On the side "slackwater, by NodeClaims" Karpenter runs too, and launches
what Slackwater asks for; it fails if the two fight over a NodeClaim.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Final

import anyio

from tests.bench import machine
from tests.bench.karpenter import inputs, play, program, sides
from tests.bench.karpenter.play import Outcome
from tests.support.controlplane.build import build

_OURS: Final = "slackwater"
_ANY_SAVING: Final = "slackwater, any saving"
_CLAIMS: Final = "slackwater, by NodeClaims"
_SIDES: Final[Mapping[str, sides.Opener]] = {
    "karpenter": sides.karpenter,
    _OURS: sides.slackwater,
    _CLAIMS: sides.node_claims,
}
_BALANCED: Final = "karpenter, Balanced"
_AFTER_FALL: Final[Mapping[str, sides.Opener]] = {
    "karpenter": sides.karpenter,
    _BALANCED: partial(sides.karpenter, policy="Balanced"),
    _OURS: partial(sides.slackwater, more=sides.consolidating()),
    _ANY_SAVING: partial(sides.slackwater, more=sides.consolidating(least_ratio=0)),
    _CLAIMS: partial(sides.node_claims, more=sides.consolidating()),
}

Runs = dict[str, list[Outcome]]


async def measure(pods: int, rounds: int, openers: Mapping[str, sides.Opener], *, largest: int, after_fall: bool) -> Runs:
    """The outcomes of each side, by what happened. `largest`: how many CPUs types may have."""
    found: Runs = {}
    for number in range(rounds):
        for name in list(openers)[:: 1 if number % 2 == 0 else -1]:
            async with openers[name](inputs.types_up_to(largest)) as side:
                found.setdefault(name, []).append(await play.burst(side, pods))
                if after_fall:
                    found.setdefault(f"{name}, after the fall", []).append(await play.fall(side, pods))
            for what in (name, f"{name}, after the fall")[: 1 + after_fall]:
                print(json.dumps({"what": what, **asdict(found[what][-1])}), file=sys.stderr, flush=True)
    return found


def table(found: Runs) -> Iterator[str]:
    """Markdown: medians, with the lowest and highest."""
    heads = ["seconds", "lowest", "highest", "bill (USD/h)", "lowest", "highest", "nodes", "evictions", "CPU s"]
    yield f"| median of {len(next(iter(found.values())))} | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for name, runs in found.items():
        seconds, dollars = [each.seconds for each in runs], [each.micros / 1e6 for each in runs]
        cells = [f"{value:.1f}" for value in (median(seconds), min(seconds), max(seconds))]
        cells += [f"{value:.2f}" for value in (median(dollars), min(dollars), max(dollars))]
        cells += [f"{median(each.nodes for each in runs):g}", f"{median(each.evictions for each in runs):g}"]
        yield f"| {name} | {' | '.join([*cells, f'{median(each.cpu for each in runs):.1f}'])} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.karpenter", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=256, help="types of at most so many CPUs")
    parser.add_argument("--after-fall", action="store_true", help="end 60 %% of the pods, and wait until each side rests")
    parser.add_argument("--only", action="append", choices=list(_AFTER_FALL), help="this side alone; may be repeated")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    build()
    program.build()
    openers = {
        name: each
        for name, each in (_AFTER_FALL if asked.after_fall else _SIDES).items()
        if name in (asked.only or _AFTER_FALL)
    }
    found = anyio.run(partial(measure, asked.pods, asked.rounds, openers, largest=asked.largest, after_fall=asked.after_fall))
    context = machine.described() | {"karpenter": program.version(), "pods": asked.pods}
    if asked.output == "json":
        print(json.dumps({"machine": context, "runs": {name: [asdict(each) for each in runs] for name, runs in found.items()}}))
    else:
        print(machine.page(table(found), context))
    return 0


if __name__ == "__main__":
    sys.exit(main())
