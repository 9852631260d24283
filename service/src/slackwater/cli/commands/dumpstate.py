"""`slackwater dumpstate`: prints the state of a running service, from its ops listener."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from slackwater.cli.commands.ops_client import add_listener, decoded, fetch, url_of
from slackwater.cli.commands.output import add_output, add_watch, as_json, columns, watched
from slackwater.model.texts import first_few

_LISTS: Final = ("holds", "nominations", "gates", "migrations", "migrationQueue")
_HEADINGS: Final = ("NODE", "STATUS", "PODS", "CORES", "OF", "%", "GIB", "OF", "%")
_DESCRIPTION: Final = """\
Asks a running service for its whole state: nodes, pods, holds, queues. The
table shows what is Reserved on each node, in cores and GiB; -o json prints
everything, in milliCPU and bytes, and `slackwater simulate` reads it.
"""
#: The most pending pods that the table names.
_MOST_NAMED: Final = 3


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "dumpstate",
        help="print the state of a running service",
        description=_DESCRIPTION,
        epilog="examples:\n  slackwater dumpstate --watch\n  slackwater dumpstate -o json > state.json",
    )
    add_watch(parser)
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return watched(args, lambda: _print(args))


def _print(args: argparse.Namespace) -> int:
    body = fetch("/dumpstate", args)
    state = decoded(f"{url_of(args).rstrip('/')}/dumpstate", body, "nodes", "a dumpstate")
    if as_json(args):
        sys.stdout.write(body.decode().rstrip("\n") + "\n")
        return 0
    print("\n".join(_table(state)))
    return 0


def _table(state: dict[str, Any]) -> Iterator[str]:
    pods = Counter(pod.get("node") for pod in state.get("pods", ()))
    closed = {entry["node"] for entry in state.get("quarantine", ())}
    rows = [_row(node, pods[node["name"]], node["name"] in closed) for node in state["nodes"]]
    yield from columns([_HEADINGS, *rows], right=range(2, len(_HEADINGS)))
    if names := [f"{pod['namespace']}/{pod['name']}" for pod in state.get("pending", ())]:
        yield f"pending: {len(names)}: {first_few(names, _MOST_NAMED)}"
        yield f"  why: slackwater explain pod {names[0]}"
    else:
        yield "pending: none"
    counts = [f"{name}: {len(state[name])}" for name in _LISTS if state.get(name)]
    yield ", ".join([f"pods on nodes: {pods.total()}", *counts])
    for activity, note in sorted(state.get("paused", {}).items()):
        yield f"paused: {activity}, {note}"
    if not state.get("synced", True):
        yield "not everything is listed yet: what is shown may be incomplete"


def _row(node: dict[str, Any], pods: int, closed: bool) -> tuple[str, ...]:
    cpu, memory = node["cpu"], node["memory"]
    return (
        str(node["name"]),
        _status(node, closed),
        str(pods),
        *(f"{amount / 1000:.2f}" for amount in (cpu["reserved"], cpu["total"])),
        _percent(cpu),
        *(f"{amount / (1 << 30):.1f}" for amount in (memory["reserved"], memory["total"])),
        _percent(memory),
    )


def _status(node: dict[str, Any], closed: bool) -> str:
    """The node's status in the words of `kubectl get nodes`, with our own "Quarantined" added."""
    words = ["Ready" if node.get("ready", True) else "NotReady"]
    words += ["SchedulingDisabled"] if node.get("unschedulable") else []
    words += ["Quarantined"] if closed else []
    return ",".join(words)


def _percent(amounts: dict[str, int]) -> str:
    return f"{100 * amounts['reserved'] / amounts['total']:.0f}" if amounts["total"] else "-"
