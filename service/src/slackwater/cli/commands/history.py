"""`slackwater history`: says what happened to a pod or a node: who evicted, preempted, moved or refused it, and why."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.object_names import add_object, settle
from slackwater.cli.commands.ops_client import ServiceNotFound, add_listener, decoded, fetch, path_of, url_of
from slackwater.cli.commands.output import CommandFailed, add_output, columns, show

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient
    from slackwater.controllers.history.state import History
    from slackwater.model.history import PastOfObject

_DESCRIPTION: Final = """\
Says what happened to a pod or a node: who evicted, preempted, moved or refused
it, and why; also before a restart or a hand-over, and when the object is gone.
Without an object it is about the whole cluster: its last hour, unless --at or
--since says otherwise. --at TIME: within five minutes of that time.

The running service answers: at --url, on this machine, or in the cluster of
$KUBECONFIG or ~/.kube/config. Without one, with --kubeconfig or --context, and
without an object the ConfigMaps that keep the history are read.
Exit code 0: answered, also if nothing happened; 2: bad arguments; 4: nothing
answers; 5: the account may not ask.
"""
_EXAMPLES: Final = """\
examples:
  slackwater history pod shop/web-2               all that is kept
  slackwater history pod shop/web-2 --since 24h   since yesterday
  slackwater history node n17                     why was it removed?
  slackwater history --at 10:05                   what was done at that time?
  slackwater history pod shop/db-0 -o json | jq -r '.entries[].text'
"""
_KINDS: Final = ("pod", "node")
#: How far before and after the time of --at.
_AROUND_MS: Final = 300_000
#: How far back without an object, --at and --since.
_LATELY_SECONDS: Final = 3600.0
_OF_DAY: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "history",
        help="what happened to a pod or a node, and who did it",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    add_object(parser, _KINDS, optional=True)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--at", metavar="TIME", type=_time, help="around then: 10:05 (here, today or yesterday), or as RFC 3339")
    when.add_argument("--since", metavar="DURATION", help="not further back than this, such as 24h or 90m")
    add_cluster(parser)
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def _time(text: str) -> datetime:
    """The time of day on this machine that was last, or the time of an RFC 3339 text; without a zone it is this machine's."""
    try:
        if _OF_DAY.fullmatch(text):
            now = datetime.now().astimezone()
            found = datetime.combine(now.date(), time.fromisoformat(text.zfill(5))).astimezone()
            return found if found <= now else (found - timedelta(days=1)).astimezone()
        return datetime.fromisoformat(text).astimezone()
    except ValueError as err:
        raise argparse.ArgumentTypeError(f"got {text!r}, want a time such as 10:05 or 2026-11-27T10:05Z") from err


def run(args: argparse.Namespace) -> int:
    _seconds(args)
    if args.kind is None:
        answer = _of_cluster(args)
    else:
        settle("history", args)
        answer = _around(_answer(args, path_of("history", args)), args.at)
    show(args, answer, lambda: _lines(args, answer))
    return 0


def _of_cluster(args: argparse.Namespace) -> Mapping[str, Any]:
    """What happened in the cluster around the time, or lately, read from the ConfigMaps. Raises `CommandFailed`."""
    from slackwater.controllers.history.state import History, past_between
    from slackwater.model.history import PastOfObject

    if args.url is not None:
        raise CommandFailed(["--url: got it without an object, want one: the history of a cluster is read from its ConfigMaps"])

    def past(history: History, notes: tuple[str, ...]) -> PastOfObject:
        now, ago = datetime.now(UTC).timestamp(), _seconds(args)
        lately = round((now - (_LATELY_SECONDS if ago is None else ago)) * 1000), round(now * 1000)
        return past_between(history, *(lately if args.at is None else _window(args.at)), notes=notes)

    return _stored(args, past)


def _window(at: datetime) -> tuple[int, int]:
    """The first and the last millisecond around the time."""
    middle = round(at.timestamp() * 1000)
    return middle - _AROUND_MS, middle + _AROUND_MS


def _around(answer: Mapping[str, Any], at: datetime | None) -> Mapping[str, Any]:
    """The answer with its entries around the time alone; None: all."""
    if at is None:
        return answer
    first, last = _window(at)
    within = (each for each in answer["entries"] if first <= datetime.fromisoformat(each["at"]).timestamp() * 1000 <= last)
    return {**answer, "entries": [*within]}


def _seconds(args: argparse.Namespace) -> float | None:
    from slackwater_protocol.durations import DurationError, parse_non_negative_duration, seconds

    try:
        return None if args.since is None else seconds(parse_non_negative_duration(args.since))
    except DurationError as err:
        raise CommandFailed([f"--since: {err}"]) from err


def _answer(args: argparse.Namespace, path: str) -> Mapping[str, Any]:
    """The answer of the running service; if there is none, or a cluster is named, the answer read from the ConfigMaps. Raises
    `CommandFailed`."""
    if args.url is None and (args.kubeconfig or args.context):
        return _stored(args, _past_of(args))
    query = f"?{urlencode({'since': args.since})}" if args.since is not None else ""
    try:
        body = fetch(f"{path}{query}", args)
    except ServiceNotFound as not_found:
        if args.url is not None:
            raise
        try:
            return _stored(args, _past_of(args))
        except CommandFailed as failed:
            raise CommandFailed([*not_found.lines, *failed.lines], code=failed.code) from failed
    return decoded(url_of(args), body, "entries", "a history")


#: Makes the answer of a history and notes.
_Past = Callable[["History", tuple[str, ...]], "PastOfObject"]


def _past_of(args: argparse.Namespace) -> _Past:
    def past(history: "History", notes: tuple[str, ...]) -> "PastOfObject":
        from slackwater.controllers.history.state import past_of

        ago = _seconds(args)
        since = None if ago is None else round((datetime.now(UTC).timestamp() - ago) * 1000)
        return past_of(history, args.kind, args.name, since_ms=since, notes=notes)

    return past


def _stored(args: argparse.Namespace, past: _Past) -> Mapping[str, Any]:
    from msgspec import to_builtins

    from slackwater.app.history import read_history

    async def read(client: "KubeClient") -> Mapping[str, Any]:
        history = await read_history(client)
        answer: Mapping[str, Any] = to_builtins(
            past(history, () if len(history) else ("no history is stored in this cluster",))
        )
        return answer

    return with_cluster(args, read)


def _lines(args: argparse.Namespace, answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["entries"]:
        lives = {entry["uid"] for entry in answer["entries"] if entry["pod"] == args.name}
        more = ("POD",) if args.kind != "pod" else ("UID",) if len(lives) > 1 else ()
        heading = ("WHEN", *more, "BY", "WHAT")
        rows = [_row(args, entry, with_uid="UID" in heading) for entry in answer["entries"]]
        yield from columns([heading, *rows])
    else:
        within = "" if args.since is None else f" within {args.since}"
        if args.at is not None and args.kind is not None:
            within = f" around {args.at.isoformat(timespec='minutes')}"
        yield f"{answer['object']}: nothing is recorded{within}"
    for ring, what in (("acts", "evictions, preemptions and migrations"), ("waits", "refusals and placements")):
        if (since := answer["reaches"].get(ring)) is not None:
            yield f"({what} are kept from {since} on)"
    yield from (f"({note})" for note in answer["notes"])


def _row(args: argparse.Namespace, entry: Mapping[str, str], *, with_uid: bool) -> tuple[str, ...]:
    text = entry["text"]
    if args.kind != "pod":
        return entry["at"], entry["pod"] or ("" if args.kind else f"node {entry['node']}"), entry["by"], text
    own = entry["pod"] == args.name
    uid = (entry["uid"] if own else "",) if with_uid else ()
    return entry["at"], *uid, entry["by"], text if own else f"pod {entry['pod']}: {text}"
