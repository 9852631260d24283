"""`slackwater history`: says what happened to a pod or a node: who evicted, preempted, moved or refused it, and why."""

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.ops_client import ServiceNotFound, add_listener, decoded, fetch, path_of, url_of
from slackwater.cli.commands.output import CommandFailed, add_output, columns, show

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient

_DESCRIPTION: Final = """\
Says what happened to a pod or a node: who evicted, preempted, moved or refused
it, and why; also before a restart or a hand-over, and when the object is gone.

The running service answers: at --url, on this machine, or in the cluster of
$KUBECONFIG or ~/.kube/config. Without one, and with --kubeconfig or --context,
the ConfigMaps that keep the history are read.
Exit code 0: answered, also if nothing happened; 1: nothing can be reached;
2: bad arguments.
"""
_EXAMPLES: Final = """\
examples:
  slackwater history pod shop/web-2               all that is kept
  slackwater history pod shop/web-2 --since 24h   since yesterday
  slackwater history node n17                     why was it removed?
  slackwater history pod shop/db-0 -o json | jq -r '.entries[].text'
"""
_KINDS: Final = ("pod", "node")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "history",
        help="what happened to a pod or a node, and who did it",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help=", ".join(_KINDS))
    parser.add_argument("name", metavar="NAME", help="NS/NAME of a pod, NAME of a node")
    parser.add_argument("--since", metavar="DURATION", help="not further back than this, such as 24h or 90m")
    add_cluster(parser)
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    path = path_of("history", args)
    _seconds(args)
    answer = _answer(args, path)
    show(args, answer, lambda: _lines(args, answer))
    return 0


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
        return _stored(args)
    query = f"?{urlencode({'since': args.since})}" if args.since is not None else ""
    try:
        body = fetch(f"{path}{query}", args)
    except ServiceNotFound as not_found:
        if args.url is not None:
            raise
        try:
            return _stored(args)
        except CommandFailed as failed:
            raise CommandFailed([*not_found.lines, *failed.lines], code=failed.code) from failed
    return decoded(url_of(args), body, "entries", "a history")


def _stored(args: argparse.Namespace) -> Mapping[str, Any]:
    from msgspec import to_builtins

    from slackwater.app.history import read_history
    from slackwater.controllers.history.state import past_of

    async def read(client: "KubeClient") -> Mapping[str, Any]:
        history, ago = await read_history(client), _seconds(args)
        since = None if ago is None else round((datetime.now(UTC).timestamp() - ago) * 1000)
        notes = () if len(history) else ("no history is stored in this cluster",)
        answer: Mapping[str, Any] = to_builtins(past_of(history, args.kind, args.name, since_ms=since, notes=notes))
        return answer

    return with_cluster(args, read)


def _lines(args: argparse.Namespace, answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["entries"]:
        lives = {entry["uid"] for entry in answer["entries"] if entry["pod"] == args.name}
        more = ("POD",) if args.kind == "node" else ("UID",) if len(lives) > 1 else ()
        heading = ("WHEN", *more, "BY", "WHAT")
        rows = [_row(args, entry, with_uid="UID" in heading) for entry in answer["entries"]]
        yield from columns([heading, *rows])
    else:
        within = "" if args.since is None else f" within {args.since}"
        yield f"{answer['object']}: nothing is recorded{within}"
    for ring, what in (("acts", "evictions, preemptions and migrations"), ("waits", "refusals and placements")):
        if (since := answer["reaches"].get(ring)) is not None:
            yield f"({what} are kept from {since} on)"
    yield from (f"({note})" for note in answer["notes"])


def _row(args: argparse.Namespace, entry: Mapping[str, str], *, with_uid: bool) -> tuple[str, ...]:
    text = entry["text"]
    if args.kind == "node":
        return entry["at"], entry["pod"], entry["by"], text
    own = entry["pod"] == args.name
    uid = (entry["uid"] if own else "",) if with_uid else ()
    return entry["at"], *uid, entry["by"], text if own else f"pod {entry['pod']}: {text}"
