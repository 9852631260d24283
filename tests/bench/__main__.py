"""`python -m tests.bench`: runs the benches, prints a table of each and writes it as JSON to tests/output/bench/.

Exit status: 0, also where a goal was missed; 1 where a run did not do what it is timed for, or a ratio is absurd; 130 after
Ctrl-C.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console

from slackwater.sandbox.controlplane.build import build
from slackwater.sandbox.controlplane.errors import ControlPlaneError
from slackwater.sandbox.controlplane.progress import shown_on
from tests.bench import (
    agents,
    autoscaler_loop,
    dashboard,
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
    steering_quality,
)
from tests.bench.options import BenchFailed, Options, ServiceCommand, Tell, installed_service
from tests.bench.report import Report

#: Cheapest first, so that what is broken shows early.
BENCHES: Final[dict[str, Callable[[Options, Tell], Awaitable[Report]]]] = {
    state_machine_events.NAME: state_machine_events.measure,
    simulation.NAME: simulation.measure,
    autoscaler_loop.NAME: autoscaler_loop.measure,
    explaining.NAME: explaining.measure,
    dashboard.NAME: dashboard.measure,
    filter_latency.NAME: filter_latency.measure,
    agents.NAME: agents.measure,
    first_sync.NAME: first_sync.measure,
    scheduler_throughput.NAME: scheduler_throughput.measure,
    preemption_throughput.NAME: preemption_throughput.measure,
    steering_quality.NAME: steering_quality.measure,
}
#: Too large for the usual run.
ON_REQUEST: Final = {scale.NAME: scale.measure}

#: What says nothing at a size that fits CI.
_NEVER_QUICK: Final = frozenset({steering_quality.NAME})


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
    for name in asked.only or (name for name in BENCHES if not (asked.quick and name in _NEVER_QUICK)):
        console.print(f"{name} ...")
        try:
            report = anyio.run((BENCHES | ON_REQUEST)[name], options, console.print, backend_options={"use_uvloop": True})
        except KeyboardInterrupt:
            return 130
        except (BenchFailed, ControlPlaneError) as error:
            wrong.append("\n".join((f"{name}: {error}", *getattr(error, "__notes__", ()))))
            continue
        document = publish.as_document(report)
        file = publish.write(document)
        print(publish.as_text(document) if asked.output == "json" else show.as_table(report, width=console.width))
        console.print(f"written to {file}")
        wrong += report.absurd()
    for problem in wrong:
        console.print(problem, style="red")
    return 1 if wrong else 0


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
