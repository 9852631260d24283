"""`slackwater demo`: runs the service with a small workload on a sandbox cluster or a real control plane, to try it."""

import argparse
from functools import partial
from typing import Final

from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed, messages

_MOST: Final = 100_000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "demo",
        help="a cluster with the service and a small workload, to look at",
        description="Runs the service and a small workload in a sandbox cluster inside this process, and prints the addresses "
        "to look at. Ctrl-C ends everything. With --control-plane the cluster is a real control plane on this machine: its "
        "first run builds it from Go modules, which takes some minutes; later runs start in seconds.",
    )
    parser.add_argument("--control-plane", action="store_true", help="a real control plane instead of the sandbox")
    parser.add_argument("--kubernetes", metavar="X", help="with --control-plane: its version, e.g. 1.35.4 (default: 1.36.3)")
    parser.add_argument("--duration", metavar="TIME", type=_duration, help='end after this time, e.g. "30s"')
    parser.add_argument("--nodes", metavar="N", type=_count, default=20, help="nodes of the cluster (default: 20)")
    parser.add_argument("--pods", metavar="N", type=_count, default=200, help="pods of the workload (default: 200)")
    parser.add_argument("--port", metavar="N", type=_port, help="port of the dashboard (default: a free one)")
    parser.add_argument("--record", metavar="F", help="record every decision there, for `slackwater replay F`")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import logging

    import anyio

    from slackwater.adapters.http.certificates import ListenError
    from slackwater.cli.commands.logs import set_up_logs
    from slackwater.runtime.record_file import RecordError
    from slackwater.sandbox.control_plane_demo import run_real_demo
    from slackwater.sandbox.controlplane.errors import ControlPlaneError, VersionError
    from slackwater.sandbox.embedded_demo import run_sandbox_demo

    set_up_logs("console", level=logging.WARNING)
    failed: list[str] = []
    refused: list[str] = []
    if args.kubernetes is not None and not args.control_plane:
        raise CommandFailed(["--kubernetes: got it without --control-plane; the sandbox has no version of Kubernetes"])
    run_demo = partial(run_real_demo, kubernetes=args.kubernetes) if args.control_plane else run_sandbox_demo
    try:
        anyio.run(
            partial(
                run_demo,
                nodes=args.nodes,
                pods=args.pods,
                duration_seconds=args.duration,
                record=args.record,
                port=args.port,
            ),
            backend_options={"use_uvloop": True},
        )
    except* VersionError as group:
        refused = [f"--kubernetes: {line}" for line in messages(group)]
    except* ListenError as group:
        refused = [*messages(group), *([] if args.port is None else ["--port names another port"])]
    except* (ControlPlaneError, RecordError) as group:
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


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"got {text}, want a port from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:7]) <= _MOST:
        raise argparse.ArgumentTypeError(f"got {text}, want a whole number from 1 to {_MOST}")
    return int(text)
