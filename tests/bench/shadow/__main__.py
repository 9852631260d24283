"""A shadow beside the real Karpenter, and then Slackwater in its place: how well the shadow predicted nodes, money, evictions
and waits, and whether it wrote anything.

    python -m tests.bench.shadow [--pods 500] [--minutes 30] [--rounds 3] [--keep DIRECTORY]

The workload grows, falls to 40 %, and grows again. Each round plays it twice, each time on a control plane of its own.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import anyio
import yaml

from slackwater.app.counterfactual.durations import quantile, total
from slackwater.app.counterfactual.lines import AnyLine, NodeCame, NodeWent, Sample, Side, Waits
from slackwater.app.report.log_files import log_files
from slackwater.app.settings import loads
from tests.bench import contenders, machine
from tests.bench.karpenter import program, sides
from tests.bench.karpenter.inputs import VARIANTS, Json, node_groups
from tests.bench.options import installed_service
from tests.bench.shadow.workload import Made, play
from tests.cluster.support.audit_tail import AuditTail
from tests.support.controlplane.build import build
from tests.support.waiting import until

#: Quick enough for a workload of half an hour, and the same for the shadow and for the service.
_AUTOSCALER: Final[Json] = {
    "enabled": True,
    "expanders": ["price"],
    "scaleDown": {"unneededTime": "1m", "delayAfterAdd": "1m"},
}
_WRITING: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
#: What has happened is known after so long, and written each hour and at the end.
_LAG_SECONDS: Final = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """`karpenter`: what really happened beside the shadow. `predicted`: for Slackwater. `served`: what Slackwater did then.
    `writes`: the requests of the shadow that write, without token reviews."""

    karpenter: Made
    predicted: Made
    served: Made
    writes: int


async def a_round(pods: int, seconds: float, keep: Path | None = None) -> Round:
    """Plays the workload beside a shadow, and then served. `keep`: a directory for the logs of both."""
    settings = {**_AUTOSCALER, "nodeGroups": node_groups(VARIANTS)}
    shadow = {"mode": "shadow", "autoscaler": settings}
    async with sides.karpenter(beside=loads(contenders.HEADER + yaml.safe_dump(shadow))) as side:
        stage, log = side.stage, side.stage.folder / "report"
        audit = AuditTail(stage.control_plane.audit_log)
        text = yaml.safe_dump({**shadow, "report": {"file": str(log)}})
        async with stage.running(contenders.service(stage, installed_service(), more=text).launch):
            await until(partial(_has_begun, log))
            karpenter = await play(stage, pods, seconds)
            await anyio.sleep(_LAG_SECONDS)
        predicted = _predicted(log, karpenter)
        _keep(stage.folder, keep, "shadow")
        writes = [each for each in audit.read() if each.user == contenders.EXTENDER_USER and each.verb in _WRITING]
    async with sides.slackwater(more={key: value for key, value in settings.items() if key != "nodeGroups"}) as side:
        served = await play(side.stage, pods, seconds)
        _keep(side.stage.folder, keep, "served")
    reviews = sum(each.resource == "tokenreviews" for each in writes)
    return Round(karpenter=karpenter, predicted=predicted, served=served, writes=len(writes) - reviews)


def _has_begun(log: Path) -> bool:
    """Whether both sides have begun. Later, ours would begin with what Karpenter has just bought."""
    return log.exists() and log.stat().st_size > 0


def _keep(folder: Path, directory: Path | None, name: str) -> None:
    """Copies what the service wrote."""
    if directory is not None:
        for each in [*folder.glob("slackwater*.log"), *folder.glob("report*")]:
            copy = directory / f"{name}-{each.name}"
            shutil.copytree(each, copy) if each.is_dir() else shutil.copy(each, copy)


def _predicted(log: Path, real: Made) -> Made:
    """What the log says of our side, from the beginning of the real workload to its end."""
    with log_files(str(log)) as files:
        lines = list(files.lines(0.0))
    seconds, micro_seconds, since = 0.0, 0.0, dict[str, NodeCame]()
    for line in [*lines, *(NodeWent(at=real.ended, side="ours", node=name) for name in _left(lines))]:
        if isinstance(line, NodeCame) and line.side == "ours":
            since[line.node] = line
        elif isinstance(line, NodeWent) and line.side == "ours":
            came = since.pop(line.node)
            lived = max(min(line.at, real.ended) - max(came.at, real.begun), 0.0)
            seconds, micro_seconds = seconds + lived, micro_seconds + lived * came.micros
    samples = [line for line in lines if isinstance(line, Sample) and line.side == "ours"]
    return Made(
        begun=real.begun,
        ended=real.ended,
        node_hours=seconds / 3600,
        dollars=micro_seconds / 3600e6,
        evictions=sum(sample.evictions for sample in samples),
        p95=quantile(total(each for waits in _waits(lines, "ours") for each in waits.seconds.values()), 0.95) or 0.0,
    )


def _left(lines: Sequence[AnyLine]) -> list[str]:
    """The nodes of our side that never went."""
    there: dict[str, None] = {}
    for line in lines:
        if isinstance(line, NodeCame) and line.side == "ours":
            there[line.node] = None
        elif isinstance(line, NodeWent) and line.side == "ours":
            del there[line.node]
    return list(there)


def _waits(lines: Sequence[AnyLine], side: Side) -> list[Waits]:
    return [line for line in lines if isinstance(line, Waits) and line.side == side]


def table(rounds: Sequence[Round]) -> Iterator[str]:
    """Markdown: medians."""
    yield "| median | Karpenter | predicted for Slackwater | Slackwater | error |"
    yield "|---|---:|---:|---:|---:|"
    for name in ("node_hours", "dollars", "evictions", "p95"):
        values = [
            median(getattr(getattr(each, side), name) for each in rounds) for side in ("karpenter", "predicted", "served")
        ]
        error = median(_error(getattr(each.predicted, name), getattr(each.served, name)) for each in rounds)
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} | {error:+.1%} |"
    yield f"| writes of the shadow | {max(each.writes for each in rounds)} | | | |"


def _error(predicted: float, served: float) -> float:
    return predicted / served - 1 if served else float(bool(predicted))


async def measure(pods: int, seconds: float, rounds: int, keep: Path | None) -> list[Round]:
    """The rounds, each printed to standard error when it is done."""
    found = list[Round]()
    for number in range(rounds):
        kept = None if keep is None else keep / str(number)
        if kept is not None:
            kept.mkdir(parents=True)
        found.append(await a_round(pods, seconds, kept))
        print(json.dumps(asdict(found[-1])), file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.shadow", description=__doc__)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where to keep the logs of both, for a look afterwards")
    asked = parser.parse_args(arguments)
    build()
    program.build()
    rounds = anyio.run(partial(measure, asked.pods, asked.minutes * 60, asked.rounds, asked.keep))
    context = machine.described() | {"karpenter": program.version(), "pods": asked.pods, "minutes": asked.minutes}
    print(machine.page(table(rounds), context))
    return 0


if __name__ == "__main__":
    sys.exit(main())
