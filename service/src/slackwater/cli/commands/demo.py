"""`slackwater demo`: runs the service with a small workload on a sandbox cluster, to try it."""

import argparse
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from slackwater.cli.commands.output import ANSWERED_NO, CommandFailed, messages, need_unix

_MOST: Final = 100_000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "demo",
        help="a cluster with the service and a small workload, to look at",
        description="Runs the service and a small workload in a sandbox cluster inside this process, and prints the addresses "
        "to look at. Ctrl-C ends everything.",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that a demo has, whatever its cluster is."""
    parser.add_argument("--duration", metavar="TIME", type=_duration, help='end after this time, e.g. "30s"')
    parser.add_argument(
        "--nodes", metavar="N", type=_number("a whole number", _MOST), default=20, help="nodes of the cluster (default: 20)"
    )
    parser.add_argument(
        "--pods", metavar="N", type=_number("a whole number", _MOST), default=200, help="pods of the workload (default: 200)"
    )
    parser.add_argument(
        "--port", metavar="N", type=_number("a port", 65535), help="port of the dashboard (default: a free one)"
    )
    parser.add_argument("--record", metavar="F", help="record every decision there, for `slackwater replay F`")


def run(args: argparse.Namespace) -> int:
    need_unix("demo")
    from slackwater.sandbox.embedded_demo import run_sandbox_demo
    from slackwater.sandbox.free_ports import NoFreePort

    return play(run_sandbox_demo, args, NoFreePort)


def play(demo: Callable[..., Awaitable[None]], args: argparse.Namespace, *failures: type[Exception]) -> int:
    """Runs a demo with what `add_options` has read. `failures`: errors whose message is all that people need."""
    import logging

    import anyio

    from slackwater.adapters.http.certificates import ListenError
    from slackwater.cli.commands.logs import set_up_logs
    from slackwater.runtime.record_file import RecordError

    set_up_logs("console", level=logging.WARNING)
    options = {"nodes": args.nodes, "pods": args.pods, "duration_seconds": args.duration, "record": args.record}
    known: tuple[type[Exception], ...] = (RecordError, *failures)
    failed: list[str] = []
    refused: list[str] = []
    try:
        anyio.run(partial(demo, **options, port=args.port), backend_options={"use_uvloop": True})
    except* ListenError as group:
        refused = [*messages(group), *([] if args.port is None else ["--port names another port"])]
    except* known as group:
        failed = messages(group)
    if refused:
        raise CommandFailed(refused)
    if failed:
        raise CommandFailed(failed, code=ANSWERED_NO)
    return 0


def _duration(text: str) -> float:
    from slackwater_protocol.durations import DurationError, parse_duration, seconds

    try:
        duration = parse_duration(text)
    except DurationError:
        duration = None
    if duration is None or duration <= 0:
        raise argparse.ArgumentTypeError(f'got {text}, want a duration > 0 such as "30s"')
    return seconds(duration)


def _number(what: str, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:7]) <= most:
            raise argparse.ArgumentTypeError(f"got {text}, want {what} from 1 to {most}")
        return int(text)

    return number
