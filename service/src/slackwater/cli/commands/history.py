"""`slackwater history`: says what happened to a pod or a node: who evicted, preempted, moved or refused it, and why."""

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.object_names import add_object, settle
from slackwater.cli.commands.ops_client import ServiceNotFound, add_listener, decoded, fetch, path_of, url_of
from slackwater.cli.commands.output import CommandFailed, add_output, columns, show
from slackwater.model.texts import count_text

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient

_DESCRIPTION: Final = """\
Says what happened to a pod or a node: who evicted, preempted, moved or refused
it, and why; also before a restart or a hand-over, and when the object is gone.
Without an object it is about the whole cluster: its last hour, unless --at or
--since says otherwise. --at TIME: within five minutes of that time.

The running service answers: at --url, on this machine, or in the cluster of
$KUBECONFIG or ~/.kube/config. Without one, and with --kubeconfig or --context,
the ConfigMaps that keep the history are read. Of the whole cluster the table
counts what the scheduler placed and refused; -o json has each.
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
    if args.kind is not None:
        settle("history", args)
    answer = _around(args, _answer(args))
    show(args, answer, lambda: _lines(args, answer))
    return 0


def _window(at: datetime) -> tuple[int, int]:
    """The first and the last millisecond around the time."""
    middle = round(at.timestamp() * 1000)
    return middle - _AROUND_MS, middle + _AROUND_MS


def _around(args: argparse.Namespace, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer with its entries around the time of --at alone, if there is one."""
    if args.at is None:
        return answer
    first, last = _window(args.at)
    within = (each for each in answer["entries"] if first <= datetime.fromisoformat(each["at"]).timestamp() * 1000 <= last)
    return {**answer, "entries": [*within]}


def _seconds(args: argparse.Namespace) -> float | None:
    from slackwater_protocol.durations import DurationError, parse_non_negative_duration, seconds

    try:
        return None if args.since is None else seconds(parse_non_negative_duration(args.since))
    except DurationError as err:
        raise CommandFailed([f"--since: {err}"]) from err


def _ago(args: argparse.Namespace) -> float | None:
    """How far back is asked, in seconds; None: as far as the history reaches."""
    ago = _seconds(args)
    if ago is not None or args.kind is not None:
        return ago
    if args.at is None:
        return _LATELY_SECONDS
    return max(0.0, datetime.now(UTC).timestamp() - _window(args.at)[0] / 1000)


def _answer(args: argparse.Namespace) -> Mapping[str, Any]:
    """The answer of the running service; if there is none, or a cluster is named, the answer read from the ConfigMaps. Raises
    `CommandFailed`."""
    ago = _ago(args)
    if args.url is None and (args.kubeconfig or args.context):
        return _stored(args, ago)
    path = "/history" if args.kind is None else path_of("history", args)
    query = "" if ago is None else f"?{urlencode({'since': f'{math.ceil(ago)}s'})}"
    try:
        body = fetch(f"{path}{query}", args)
    except ServiceNotFound as not_found:
        if args.url is not None:
            raise
        try:
            return _stored(args, ago)
        except CommandFailed as failed:
            raise CommandFailed([*not_found.lines, *failed.lines], code=failed.code) from failed
    return decoded(url_of(args), body, "entries", "a history")


def _stored(args: argparse.Namespace, ago: float | None) -> Mapping[str, Any]:
    """The answer read from the ConfigMaps."""
    from msgspec import to_builtins

    from slackwater.app.history import read_history
    from slackwater.controllers.history.state import past_of

    async def read(client: "KubeClient") -> Mapping[str, Any]:
        history = await read_history(client)
        since = None if ago is None else round((datetime.now(UTC).timestamp() - ago) * 1000)
        notes = () if len(history) else ("no history is stored in this cluster",)
        past = past_of(history, args.kind or "cluster", args.name or "", since_ms=since, notes=notes)
        answer: Mapping[str, Any] = to_builtins(past)
        return answer

    return with_cluster(args, read)


def _lines(args: argparse.Namespace, answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["entries"]:
        lives = {entry["uid"] for entry in answer["entries"] if entry["pod"] == args.name}
        more = ("POD",) if args.kind != "pod" else ("UID",) if len(lives) > 1 else ()
        heading = ("WHEN", *more, "BY", "WHAT")
        if args.kind is None:
            yield from _of_cluster(heading, answer["entries"])
        else:
            yield from columns([heading, *(_row(args, entry, with_uid="UID" in heading) for entry in answer["entries"])])
    else:
        within = "" if args.since is None else f" within {args.since}"
        if args.kind is None and args.since is None:
            within = " within the last hour"
        if args.at is not None:
            within = f" around {args.at.isoformat(timespec='minutes')}"
        yield f"{answer['object']}: nothing is recorded{within}"
    for ring, what in (("acts", "evictions, preemptions and migrations"), ("waits", "refusals and placements")):
        if (since := answer["reaches"].get(ring)) is not None:
            yield f"({what} are kept from {since} on)"
    yield from (f"({note})" for note in answer["notes"])


def _of_cluster(heading: tuple[str, ...], entries: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What was done in the cluster: equal entries in succession as one, and those of the scheduler counted."""
    acts = [entry for entry in entries if entry["by"] != "scheduler"]
    rows = []
    for (by, text), those in groupby(acts, key=lambda entry: (entry["by"], entry["text"])):
        first, *more = those
        what = first["pod"] or f"node {first['node']}"
        rows.append((first["at"], f"{len(more) + 1} times, such as {what}" if more else what, by, text))
    if rows:
        yield from columns([heading, *rows])
    counted = Counter(entry["action"] for entry in entries if entry["by"] == "scheduler")
    if counted:
        said = " and ".join(f"{action} {count_text(count, 'time')}" for action, count in sorted(counted.items()))
        pods = len({entry["pod"] for entry in entries if entry["by"] == "scheduler"})
        yield f"(the scheduler: {said}, {count_text(pods, 'pod')}; -o json has each)"


def _row(args: argparse.Namespace, entry: Mapping[str, str], *, with_uid: bool) -> tuple[str, ...]:
    text = entry["text"]
    if args.kind != "pod":
        return entry["at"], entry["pod"], entry["by"], text
    own = entry["pod"] == args.name
    uid = (entry["uid"] if own else "",) if with_uid else ()
    return entry["at"], *uid, entry["by"], text if own else f"pod {entry['pod']}: {text}"
