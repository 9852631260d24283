"""`slackwater dumpstate`: the state of a running service, as its ops listener gives it."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from slackwater.cli.commands.asking import add_listener, fetch
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed
from slackwater.cli.commands.output import add_output, as_json, columns

_LISTS: Final = ("pods", "migrationQueue", "holds", "nominations", "gates", "migrations")
_HEADINGS: Final = ("NODE", "CPU RESERVED", "CPU TOTAL", "CPU %", "MEM RESERVED", "MEM TOTAL", "MEM %")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "dumpstate",
        help="print the state of a running service",
        description="Asks the ops listener of a running service for its whole state: nodes, pods, holds, queues. The "
        "table shows what each node has promised; -o json prints everything, milliCPU and bytes.",
    )
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    url = f"{args.url.rstrip('/')}/dumpstate"
    body = fetch("/dumpstate", args)
    state = _decoded(url, body)
    if as_json(args):
        sys.stdout.write(body.decode().rstrip("\n") + "\n")
        return 0
    print("\n".join(_table(state)))
    return 0


def _decoded(url: str, body: bytes) -> dict[str, Any]:
    try:
        state = json.loads(body)
    except ValueError as err:
        raise CommandFailed([f"{url}: got no JSON: {err}"], code=ANSWERED_NO) from err
    if not isinstance(state, dict) or not isinstance(state.get("nodes"), list):
        raise CommandFailed([f"{url}: got JSON without a list of nodes, want a dumpstate"], code=ANSWERED_NO)
    return state


def _table(state: dict[str, Any]) -> Iterator[str]:
    yield from columns([_HEADINGS, *map(_row, state["nodes"])], right=range(1, len(_HEADINGS)))
    yield ", ".join(f"{name}: {len(state[name])}" for name in _LISTS if isinstance(state.get(name), list | dict))


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    from slackwater_protocol.units import quantity_text_cpu, quantity_text_memory

    cpu, memory = node["cpu"], node["memory"]
    return (
        str(node["name"]),
        quantity_text_cpu(cpu["reserved"]),
        quantity_text_cpu(cpu["total"]),
        _percent(cpu),
        quantity_text_memory(memory["reserved"]),
        quantity_text_memory(memory["total"]),
        _percent(memory),
    )


def _percent(amounts: dict[str, int]) -> str:
    return f"{100 * amounts['reserved'] / amounts['total']:.0f}" if amounts["total"] else "-"
