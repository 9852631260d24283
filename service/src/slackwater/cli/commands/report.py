"""`slackwater report`: says what happened in a cluster, what Slackwater would have done, and which decisions mattered most."""

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final, cast
from urllib.parse import urlencode

from slackwater.app.progress import shown
from slackwater.cli.commands.ops_client import add_listener, fetch_parts, url_of
from slackwater.cli.commands.output import BAD_INPUT, NOT_FOUND, CommandFailed, add_report_output, name_of, report_lines
from slackwater.model.ids import DAY_SECONDS

if TYPE_CHECKING:
    from slackwater.app.report.log_files import LogFiles

_DESCRIPTION: Final = """\
Says what happened in a cluster beside what Slackwater would have done there:
nodes, money, pending pods and evictions of both sides, the ten decisions that
mattered most with the command that explains each, and how far the model was
from what happened. A service that is no shadow knows only what
happened.

The log comes from the running service: at --url, on this machine, or in the
cluster of $KUBECONFIG or ~/.kube/config. With --log it is read from a file.
Exit code 0: reported; 2: a file cannot be read; 3: the service writes no log;
4: nothing answers; 5: the account may not ask.
"""
_EXAMPLES: Final = """\
examples:
  slackwater report                             of the last 24 hours
  slackwater report --since 7d -o html > report.html
  slackwater report --log shadow.log -o json | jq .saved
"""
_DAYS: Final = re.compile(r"([0-9]{1,4})d")
DEFAULT_SINCE: Final = "24h"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "report",
        help="what happened, and what Slackwater would have done: nodes, money, pending pods, evictions",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("--log", metavar="F", help="read this log, and the older files F.1, F.2, ... beside it; - for stdin")
    parser.add_argument(
        "--since",
        metavar="T",
        type=_seconds,
        default=DEFAULT_SINCE,
        help=f"how far back from the last line, such as 7d or 90m (default: {DEFAULT_SINCE})",
    )
    add_listener(parser)
    add_report_output(parser)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    from slackwater_protocol.durations import DurationError, parse_non_negative_duration, seconds

    if (days := _DAYS.fullmatch(text)) is not None:
        found = float(int(days[1]) * DAY_SECONDS)
    else:
        try:
            found = seconds(parse_non_negative_duration(text))
        except DurationError as error:
            raise argparse.ArgumentTypeError(f"got {text!r}, want days or a duration such as 7d, 24h or 90m") from error
    if not found:
        raise argparse.ArgumentTypeError(f"got {text!r}, want more than 0")
    return found


def run(args: argparse.Namespace) -> int:
    from slackwater.app.report.report import NoReport, report_answer
    from slackwater.app.report.view import view_of

    if args.log is not None and (args.url or args.kubeconfig or args.context):
        raise CommandFailed(["--log: got it with --url, --kubeconfig or --context, want a file or a service"])
    source = url_of(args) if args.log is None else name_of(args.log)
    try:
        with _opened(args) as log, shown(forced=args.progress) as progress:
            progress.step(f"reading the log of {source}")
            answer = report_answer(log, since_seconds=args.since)
    except NoReport as error:
        raise CommandFailed([f"{source}: {error}"], code=NOT_FOUND if args.log is None else BAD_INPUT) from error
    for line in report_lines(args.output, answer, view_of(answer)):
        print(line)
    return 0


@contextmanager
def _opened(args: argparse.Namespace) -> "Iterator[LogFiles]":
    from slackwater.app.report.log_files import LogFiles, log_files

    if args.log not in (None, "-"):
        try:
            with log_files(args.log) as log:
                yield log
        except OSError as error:
            raise CommandFailed([f"--log: {error.filename or args.log}: {error.strerror}"]) from error
        return
    with TemporaryFile() as file:
        if args.log == "-":
            shutil.copyfileobj(sys.stdin.buffer, file)
        else:
            _fetch(args, cast("BinaryIO", file))
        yield LogFiles([(url_of(args) if args.log is None else "stdin", cast("BinaryIO", file))])


def _fetch(args: argparse.Namespace, file: BinaryIO) -> None:
    from slackwater.app.report.report import LEAD_SECONDS

    fetch_parts(file.write, f"/report?{urlencode({'since': f'{args.since + LEAD_SECONDS:.0f}s'})}", args)
