"""`slackwater explain`: why a pod waits, a node stays, a group does not grow; and what was seen to help."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from slackwater.cli.commands.asking import add_listener, fetch
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed
from slackwater.cli.commands.output import add_output, as_json, columns

_DESCRIPTION: Final = """\
Asks a running service why an object is as it is. Every remedy was tried in the simulator: it is told only where it helps.
Exit code 0: explained; 1: there is no such object, or the service cannot be reached; 2: bad arguments.
"""
_EXAMPLES: Final = """\
examples:
  slackwater explain pod shop/web-2          why is it pending?
  slackwater explain node n17                why is it still here?
  slackwater explain group pool-a            why has it not grown?
  slackwater explain pod shop/web-2 -o json | jq -r '.remedies[].change'
"""
#: What can be asked about, its part of the path, and whether it has a namespace.
_KINDS: Final = {
    "pod": ("pods", True),
    "node": ("nodes", False),
    "group": ("groups", False),
    "permit": ("permits", True),
    "migration": ("migrations", True),
    "gate": ("gates", True),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "explain",
        help="why a pod waits, a node stays, a group does not grow",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help=", ".join(_KINDS))
    parser.add_argument("name", metavar="NAME", help="NS/NAME of what has a namespace, else NAME")
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    body = fetch(_path(args.kind, args.name), args)
    answer = _decoded(args.url, body)
    if as_json(args):
        sys.stdout.write(body.decode().rstrip("\n") + "\n")
    else:
        _show(answer)
    return 0


def _path(kind: str, name: str) -> str:
    part, namespaced = _KINDS[kind]
    pieces = name.split("/")
    if len(pieces) != 1 + namespaced or not all(pieces):
        want = "NAMESPACE/NAME" if namespaced else "a name without a slash"
        raise CommandFailed([f"explain {kind}: got {name!r}, want {want}"])
    return f"/explain/{part}/{'/'.join(quote(piece, safe='') for piece in pieces)}"


def _decoded(url: str, body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError as err:
        raise CommandFailed([f"{url}: got no JSON: {err}"], code=ANSWERED_NO) from err
    if not isinstance(answer, dict) or "reasons" not in answer:
        raise CommandFailed([f"{url}: got JSON without reasons, want an explanation"], code=ANSWERED_NO)
    return answer


# --- for people -----------------------------------------------------------------------------------------------------------


def _show(answer: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(f"[bold]{escape(answer['object'])}[/bold]: {escape(answer['state'])}")
    _table(("WHY", "NODES", "SHORT", "OBJECTS"), [_reason(reason) for reason in answer["reasons"]])
    for line in _slack(answer.get("facts", {}).get("slack")):
        console.print(escape(line))
    if answer.get("groups"):
        _table(("GROUP", "WHY NOT"), [_group(word) for word in answer["groups"]])
    if answer["remedies"]:
        console.print("\n[bold]what would help[/bold] (each was tried in the simulator)")
        for remedy in answer["remedies"]:
            console.print(f"  - {escape(remedy['change'])}")
    for found in answer["minimal"]:
        if len(found["blockers"]) > 1:
            console.print(f"\n[bold]{escape(found['where'])}[/bold]: all of these have to go")
            _table(("WHY", "NODES", "SHORT", "OBJECTS"), [_reason(blocker) for blocker in found["blockers"]])
    for note in answer.get("notes", ()):
        console.print(f"not judged: {escape(note)}")


def _slack(slack: Mapping[str, Any] | None) -> Iterator[str]:
    """Room for pods to come on a group's nodes: how much, for whom, at what cost."""
    from slackwater_protocol.units import Bytes, MilliCpu, quantity_text_cpu, quantity_text_memory

    if slack is None or not (slack["placeholders"] or slack["coming"]):
        return
    room = f"{quantity_text_cpu(MilliCpu(slack['cpu']))} cpu, {quantity_text_memory(Bytes(slack['memory']))} memory"
    yield f"room kept for pods to come: {slack['placeholders']} placeholders ({room}), {slack['coming']} more on their way"
    yield f"  for: {', '.join(f'{source} ({count})' for source, count in slack['sources'].items())}"
    yield f"  nodes that stand for this alone: {slack['nodesForSlackAlone']}"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        print("\n".join(columns([headings, *rows])))


def _reason(reason: Mapping[str, Any]) -> tuple[str, ...]:
    words = reason["text"] + (f" ({reason['detail']})" if reason.get("detail") else "")
    where = f" on {reason['closest']}" if reason.get("closest") and reason["nodes"] > 1 else ""
    short = ", ".join(_amounts(reason)) + where if reason["short"] else ""
    return words, str(reason["nodes"] or ""), short, ", ".join(reason["objects"])


def _amounts(reason: Mapping[str, Any]) -> Iterator[str]:
    from slackwater_protocol.units import quantity_text_cpu, quantity_text_memory

    for unit, amount in reason["short"].items():
        match unit:
            case "milliCPU":
                text = quantity_text_cpu(amount)
            case "bytes":
                text = quantity_text_memory(amount)
            case _:
                text = str(amount)
        yield f"{text} {reason['resource'] or unit}"


def _group(word: Mapping[str, Any]) -> tuple[str, str]:
    why = "; ".join(f"{reason['text']}{_more(reason)}" for reason in word["reasons"])
    return word["group"], why or "would help"


def _more(reason: Mapping[str, Any]) -> str:
    parts = [reason.get("detail", ""), ", ".join(_amounts(reason))]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""
