"""`slackwater drains`: lists the nodes that are being removed with the phase of each removal, and cancels a drain."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from slackwater.cli.commands.ops_client import add_listener, fetch, url_of
from slackwater.cli.commands.output import (
    ANSWERED_NO,
    NO_ANSWER,
    CommandFailed,
    add_output,
    add_watch,
    as_json,
    columns,
    show,
    watched,
)

_DESCRIPTION: Final = """\
Asks a running service which nodes it is removing, as of the autoscaler's last
loop, and how its last removals ended. `drains cancel NODE` stops a drain and
rolls it back: the node takes pods again. Exit code 0: asked; 1: nothing is
removed, or it is too late; 3: there is no such drain; 4: nothing answers; 5:
the account may not ask.
"""
_EXAMPLES: Final = """\
examples:
  slackwater drains --watch
  slackwater explain node n17         which pods does it wait for?
  slackwater drains cancel n17
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "drains",
        help="which nodes are being removed; stop one",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "what", metavar="WHAT", nargs="?", choices=("list", "cancel"), default="list", help="list (default), cancel"
    )
    parser.add_argument("node", metavar="NODE", nargs="?", help="the node whose drain to cancel")
    add_watch(parser)
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if (args.what == "cancel") != (args.node is not None):
        want = "want one" if args.what == "cancel" else "want cancel before it"
        raise CommandFailed([f"drains {args.what}: got {'no node' if args.node is None else f'node {args.node}'}, {want}"])
    if args.what == "list":
        return watched(args, lambda: _list(args))
    if args.watch:
        raise CommandFailed(["--watch: got it with cancel, want it alone: it shows what is being removed"])
    body = fetch(f"/drains/{quote(args.node, safe='')}/cancel", args, b"")
    print(body.decode().strip() if as_json(args) else f"the drain of node {args.node} is cancelled and rolled back")
    return 0


def _list(args: argparse.Namespace) -> int:
    found = _of_state(url_of(args), fetch("/dumpstate", args))
    show(args, found, lambda: _table(found))
    return 0


def _of_state(source: str, body: bytes) -> Mapping[str, Any]:
    """The removals of the autoscaler's last loop, from the body of `/dumpstate`. Raises `CommandFailed` if no scale-down runs
    or no loop has ended yet."""
    try:
        loop = json.loads(body)["autoscaler"]
        scale_down = None if loop is None else loop["scaleDown"]
        if scale_down is None:
            raise CommandFailed(
                [f"{source}: the autoscaler removes no nodes, or has not looked yet; `autoscaler.scaleDown.enabled` says"],
                code=ANSWERED_NO,
            )
        return {"removals": scale_down["removals"], "ended": scale_down["ended"], "status": scale_down["status"]}
    except (ValueError, KeyError, TypeError) as err:
        raise CommandFailed([f"{source}/dumpstate: got no dumpstate of this version: {err!r}"], code=NO_ANSWER) from err


def _table(found: Mapping[str, Any]) -> Iterator[str]:
    if found["removals"]:
        yield from columns([("NODE", "PHASE"), *((each["node"], each["phase"]) for each in found["removals"])])
    else:
        yield "no node is being removed"
    for end in found["ended"]:
        why = ": ".join(part for part in (end["reason"], end["detail"]) if part)
        yield f"ended: {end['node']}: {end['outcome']}{f' ({why})' if why else ''}, {end['evicted']} pods evicted"
    yield f"removals: {found['status']}"
