"""`python -m tests.bench`: runs the benches, prints a table of each and writes it as JSON to tests/output/bench/.

At a size that fits CI, one run is short, and other work on the machine may make any ratio absurd: so a bench with an absurd
ratio runs again. A ratio counts as absurd if it is so each time. What went wrong is printed last, in one block.

Exit status: 0, also where a goal was missed; 1 where a run did not do what it is timed for, or a ratio is absurd; 130 after
Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console

from tests.bench import (
    agents,
    autoscaler_loop,
    choice_quality,
    dashboard,
    devices,
    explaining,
    filter_latency,
    first_sync,
    preemption_throughput,
    publish,
    scale,
    scheduler_throughput,
    show,
    simulation,
    state_machine_events,
)
from tests.bench.options import BenchFailed, Options, ServiceCommand, WriteFrame, installed_service
from tests.bench.report import Report
from tests.support.controlplane.build import build
from tests.support.controlplane.errors import ControlPlaneError
from tests.support.controlplane.progress import shown_on

#: Cheapest first, so that what is broken shows early.
BENCHES: Final[dict[str, Callable[[Options, WriteFrame], Awaitable[Report]]]] = {
    state_machine_events.NAME: state_machine_events.measure,
    simulation.NAME: simulation.measure,
    devices.NAME: devices.measure,
    autoscaler_loop.NAME: autoscaler_loop.measure,
    explaining.NAME: explaining.measure,
    dashboard.NAME: dashboard.measure,
    filter_latency.NAME: filter_latency.measure,
    agents.NAME: agents.measure,
    first_sync.NAME: first_sync.measure,
    scheduler_throughput.NAME: scheduler_throughput.measure,
    preemption_throughput.NAME: preemption_throughput.measure,
    choice_quality.NAME: choice_quality.measure,
}
#: Too large for the usual run.
ON_REQUEST: Final = {scale.NAME: scale.measure}

#: What says nothing at a size that fits CI.
_NEVER_QUICK: Final = frozenset({choice_quality.NAME})


#: Runs of a bench at a size that fits CI, as long as a ratio was absurd in each.
_QUICK_RUNS: Final = 3
#: How the line of each problem begins; pytest's summary has the same word.
FAILED: Final = "FAILED"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    asked = _parser().parse_args(arguments)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if asked.write_docs:
        return _write_docs(console)
    with shown_on(sys.stderr) as progress:
        build(progress)
    services = tuple(asked.service) or (installed_service(),)
    options = Options(quick=asked.quick, rounds=asked.rounds, nodes=asked.nodes, pods=asked.pods, services=services)
    wrong: list[str] = []
    try:
        for name in asked.only or (name for name in BENCHES if not (asked.quick and name in _NEVER_QUICK)):
            wrong += [f"{name}: {problem}" for problem in _problems(name, options, asked.output, console)]
    except KeyboardInterrupt:
        return 130
    finally:
        for problem in wrong:
            console.print(f"{FAILED} {problem}", style="red", markup=False)
    return 1 if wrong else 0


def _problems(name: str, options: Options, output: str, console: Console) -> list[str]:
    """Runs a bench, prints and writes what it found; what went wrong."""
    problems: dict[str, str] = {}
    for run in range(1, (_QUICK_RUNS if options.quick else 1) + 1):
        console.print(f"{name} ...")
        try:
            report = anyio.run((BENCHES | ON_REQUEST)[name], options, console.print, backend_options={"use_uvloop": True})
        except (BenchFailed, ControlPlaneError, ExceptionGroup) as error:
            return [_failure(error)]
        document = publish.as_document(report)
        file = publish.write(document)
        print(publish.as_text(document) if output == "json" else show.as_table(report, width=console.width), flush=True)
        console.print(f"written to {file}")
        absurd = report.absurd()
        problems = {ratio: text for ratio, text in absurd.items() if run == 1 or ratio in problems}
        for text in absurd.values():
            console.print(f"absurd in run {run}, {_load()}: {text}", markup=False)
        if not problems:
            return []
    times = f" (in each of {_QUICK_RUNS} runs)" if options.quick else ""
    return [f"{text}{times}" for text in problems.values()]


def _load() -> str:
    """How busy the machine is."""
    return f"with {os.getloadavg()[0]:.1f} processes that want one of {os.cpu_count()} cores"


def _failure(error: Exception) -> str:
    """What went wrong with a bench, also where it went wrong in task groups; other errors are raised again."""
    cause = error
    while isinstance(cause, ExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    if not isinstance(cause, (BenchFailed, ControlPlaneError)):
        raise error
    return "\n".join((str(cause), *getattr(cause, "__notes__", ())))


def _write_docs(console: Console) -> int:
    try:
        console.print(f"wrote {publish.write_docs()}")
    except BenchFailed as error:
        console.print(str(error), style="red")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, for CI")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="what is printed (default: table)")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(BENCHES | ON_REQUEST),
        metavar="NAME",
        help=f"of {', '.join(BENCHES | ON_REQUEST)}",
    )
    parser.add_argument("--rounds", type=_count, metavar="N", help="runs of each contender")
    parser.add_argument("--nodes", type=_count, metavar="N", help="instead of the bench's own number")
    parser.add_argument("--pods", type=_count, metavar="N", help="instead of the bench's own number")
    parser.add_argument(
        "--service",
        action="append",
        default=[],
        type=_service,
        metavar="NAME=PROGRAM",
        help="a service to measure instead of the one of this environment; several are compared in one run",
    )
    parser.add_argument("--write-docs", action="store_true", help="runs nothing; puts what was written into docs/benchmarks.md")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text}, want a whole number of at least 1")
    return int(text)


def _service(text: str) -> ServiceCommand:
    name, _, program = text.partition("=")
    if not name or not Path(program).is_file():
        raise argparse.ArgumentTypeError(f"got {text}, want NAME=PROGRAM with a program that exists")
    return ServiceCommand(name=name, program=Path(program).absolute())


if __name__ == "__main__":
    sys.exit(main())
