"""`slackwater explain`: says why a pod waits, why a node is not removed or why a group does not grow, and which changes help in
a simulation."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from slackwater.app.progress import shown
from slackwater.cli.commands.explain_workload import counts, titles, workload_answer
from slackwater.cli.commands.object_names import add_object, settle
from slackwater.cli.commands.ops_client import ServiceNotFound, add_listener, decoded, fetch, path_of, url_of
from slackwater.cli.commands.output import NOT_FOUND, CommandFailed, add_output, add_watch, as_json, columns, watched
from slackwater.cli.commands.simulate_common import add_version, failed, read_simulated
from slackwater.model.texts import count_text, first_few, summed_up

if TYPE_CHECKING:
    from rich.console import Console

    from slackwater.app.simulation import Simulation

_DESCRIPTION: Final = """\
Says why an object is as it is, and what would help. Every remedy was tried in
the simulator: it is named only where it helps.

The running service answers: at --url, on this machine, or in the kubeconfig's
cluster. Without one, pods, nodes and groups are explained from the objects of
the API, of the kubeconfig's cluster or of a file (--cluster). Workloads are
read with your own rights; the service explains their pods.
Exit code 0: explained; 2: bad arguments; 3: there is no such object; 4: nothing
answers; 5: the account may not ask.
"""
_EXAMPLES: Final = """\
examples:
  slackwater explain pod shop/web-2           why is it pending?
  slackwater explain po web-2 -n shop         the same in kubectl's words
  slackwater explain pod shop/web-2 --watch   ... and is it still?
  slackwater explain deploy web -n shop       why is it short of pods?
  slackwater explain node n17                 why is it still here?
  slackwater explain group pool-a             why has it not grown?
  slackwater explain pod shop/web-2 -o json | jq -r '.remedies[].change'
"""
_WORKLOADS: Final = ("deployment", "statefulset", "daemonset", "replicaset", "job")
_KINDS: Final = ("pod", "node", "group", *_WORKLOADS, "permit", "migration", "gate")
_REASONS: Final = ("WHY", "NODES", "SHORT", "OBJECTS")
#: The most names in one row; -o json prints all.
_MOST_NAMED: Final = 4
#: The most plug-ins named in one row.
_MOST_DIFFERENCES: Final = 2
#: The kinds that can be explained without a running service, from the objects of the API.
_OFFLINE: Final = ("pod", "node", "group")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "explain",
        help="why a pod waits, a node stays, a group does not grow",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    add_object(parser, _KINDS)
    parser.add_argument(
        "--cluster", metavar="F", help="without a service: from a file or folder that kubectl or dumpstate wrote"
    )
    parser.add_argument("--config", metavar="F", help="without a service: with the node groups of this configuration")
    add_watch(parser)
    add_version(parser)
    add_listener(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settle("explain", args)
    return watched(args, lambda: _explained(args))


def _explained(args: argparse.Namespace) -> int:
    if args.cluster and args.url is not None:
        raise CommandFailed(["--cluster: got --url too, want one of them: a file or a running service"])
    offline = _Offline(args)
    body = _of_workload(args, offline) if args.kind in _WORKLOADS else _answer(args, offline)
    answer = decoded(url_of(args), body, "reasons", "an explanation")
    if as_json(args):
        sys.stdout.write(body.decode().rstrip("\n") + "\n")
    else:
        _show(answer)
    return 0


def _of_workload(args: argparse.Namespace, offline: "_Offline") -> bytes:
    from msgspec.json import encode

    return encode(workload_answer(args, lambda pod: json.loads(_answer(pod, offline))))


def _answer(args: argparse.Namespace, offline: "_Offline") -> bytes:
    """The answer of the running service; if none is found, an answer made from the objects of the API. Raises
    `CommandFailed`."""
    if args.cluster or offline.used:
        return offline.explain(args)
    try:
        return fetch(path_of("explain", args), args)
    except ServiceNotFound as not_found:
        if args.url is not None or args.kind not in _OFFLINE or args.watch:
            raise
        try:
            body = offline.explain(args)
        except _NothingToExplain:
            raise  # the objects could be read, so the missing service is not the cause
        except CommandFailed as failed:
            own = [line for line in not_found.lines if not any(other.startswith(line) for other in failed.lines)]
            raise CommandFailed([*own, *failed.lines], code=failed.code) from failed
        print("slackwater: note: no service answers, explained from the objects of the API", file=sys.stderr)
        return body


class _Offline:
    """Explains from the objects of the API, which are read when they are first needed. `used`: they were read."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._simulation: Simulation | None = None

    @property
    def used(self) -> bool:
        return self._simulation is not None

    def explain(self, args: argparse.Namespace) -> bytes:
        from msgspec.json import encode

        from slackwater.app.simulation import NoSuchObject, SimulationError

        if args.kind not in _OFFLINE:
            kinds = ", ".join(_OFFLINE)
            raise CommandFailed([f"explain {args.kind}: only a running service knows; want --url, or one of {kinds}"])
        try:
            with shown(forced=args.progress) as progress:
                if self._simulation is None:
                    self._simulation = read_simulated(self._args, progress)
                progress.step(f"explaining {args.kind} {args.name}")
                return encode(self._simulation.explain(args.kind, args.name))
        except NoSuchObject as err:
            raise _NothingToExplain(err.lines, code=NOT_FOUND) from err
        except SimulationError as err:
            raise failed(err) from err


class _NothingToExplain(CommandFailed):
    """The objects of the API were read, but the object to explain is not among them."""


# --- for people -----------------------------------------------------------------------------------------------------------


def _show(answer: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    facts = answer.get("facts", {})
    console.print(f"[bold]{escape(answer['object'])}[/bold]: {escape(answer['state'])}")
    for remark in summed_up(answer.get("remarks", ())):
        console.print(f"({escape(remark)})")
    _table(_REASONS, _reasons(answer["reasons"]))
    for line in (*counts(facts), *_money(facts), *_slack(facts.get("slack"))):
        console.print(escape(line))
    if "moves" in facts:
        console.print(f"removing it would move {count_text(len(facts['moves']), 'pod')}")
        _table(("POD", "WOULD GO TO"), [(each["pod"], each["node"]) for each in facts["moves"]])
    if lost := facts.get("lost"):
        pods = count_text(len(lost), "pod")
        console.print(f"removing it would end {pods} without a controller for good: {escape(_named(lost))}")
    _table(("GROUP", "WHY NOT"), _groups(answer.get("groups", ())))
    _show_remedies(console, answer)
    _show_waiting(console, answer.get("waiting", ()))
    for places, rows in _together(answer.get("minimal", ())):
        console.print(f"\n[bold]{escape(_named(places))}[/bold]: all of these have to go")
        _table(_REASONS, rows)
    _show_instead(console, answer.get("instead"))
    if answer.get("history"):
        console.print("\n[bold]what happened[/bold] (all of it: slackwater history)")
        for entry in answer["history"]:
            console.print(f"  {entry['at']}  {escape(entry['text'])}")
    for note in answer.get("notes", ()):
        console.print(f"not judged: {escape(note)}")


def _show_waiting(console: "Console", waiting: Sequence[Mapping[str, Any]]) -> None:
    """The pods of a workload that have no node, by reason."""
    from rich.markup import escape

    for title, pods in titles(waiting):
        explained = pods["explanation"]
        if explained is None:
            console.print(f"\n[bold]{escape(title)}[/bold]: {escape(pods['problem'])}")
        else:
            console.print(f"\n[bold]{escape(title)}[/bold]: {escape(explained['state'])}")
            _table(_REASONS, _reasons(explained["reasons"]))
            _table(("GROUP", "WHY NOT"), _groups(explained.get("groups", ())))
            _show_remedies(console, explained)
            for note in explained.get("notes", ()):
                console.print(f"not judged: {escape(note)}")


def _show_remedies(console: "Console", answer: Mapping[str, Any]) -> None:
    from rich.markup import escape

    if answer["remedies"]:
        console.print("\n[bold]what would help[/bold] (each was tried in the simulator)")
        for change in dict.fromkeys(remedy["change"] for remedy in answer["remedies"]):
            console.print(f"  - {escape(change)}")


def _reasons(reasons: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The table rows of the reasons. Reasons that differ only in their objects share one row, which names some objects and
    counts the rest."""
    found: dict[tuple[str, ...], list[str]] = {}
    for reason in reasons:
        *cells, objects = _reason(reason)
        found.setdefault(tuple(cells), []).append(objects)
    return [(*cells, _named([each for each in dict.fromkeys(objects) if each])) for cells, objects in found.items()]


def _groups(groups: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The table rows of the node groups; groups with the same answer share one row."""
    found: dict[str, list[str]] = {}
    for group in groups:
        name, why = _group(group)
        found.setdefault(why, []).append(name)
    return [(_named(names), why) for why, names in found.items()]


def _show_instead(console: "Console", instead: Mapping[str, Any] | None) -> None:
    if instead is not None:
        console.print(f"\n[bold]what could be instead[/bold] (as of now; its node scores {instead['score']})")
        _table(("NODE", "SCORE", "COMPARED"), _instead(instead))
        _table(("WHY NOT THE OTHERS", *_REASONS[1:]), _reasons(instead["reasons"]))


def _instead(instead: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The table rows of the other nodes that would take a placed pod. A last row counts the nodes that are not named."""
    rows = []
    for each in instead["nodes"]:
        differs = sorted(each["difference"].items(), key=lambda item: (-abs(item[1]), item[0]))
        compared = ", ".join(f"{name} {points:+}" for name, points in differs[:_MOST_DIFFERENCES]) or "equal"
        rows.append((each["node"], str(each["score"]), compared))
    more = instead["feasible"] - len(rows)
    return [*rows, (f"{more} more", "", "")] if more > 0 else rows


def _together(minimal: Sequence[Mapping[str, Any]]) -> Iterator[tuple[list[str], list[tuple[str, ...]]]]:
    """The names of places, with the table rows of the reasons that have to be removed there together. Places with equal reasons
    are listed together."""
    found: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for each in minimal:
        if len(each["blockers"]) > 1:
            found.setdefault(tuple(_reasons(each["blockers"])), []).append(each["where"])
    for rows, places in found.items():
        yield places, list(rows)


def _named(names: Sequence[str]) -> str:
    return first_few(names, _MOST_NAMED if len(names) <= _MOST_NAMED else _MOST_NAMED - 1)


_COSTS: Final = {"node": "a new node costs", "present": "the present nodes cost", "planned": "the planned nodes cost"}


def _money(facts: Mapping[str, Any]) -> Iterator[str]:
    """Lines about what a node or a node group costs; none without prices."""
    costs = {"the node costs": facts.get("price"), **{_COSTS[name]: cost for name, cost in facts.get("cost", {}).items()}}
    for what, price in costs.items():
        if price is not None:
            yield f"{what} {price['perHour']} {price['currency']} an hour ({price['basis']})"


def _slack(slack: Mapping[str, Any] | None) -> Iterator[str]:
    """Lines about the slack on a group's nodes: how much it is, for which pods, and how many nodes exist only for it."""
    from slackwater_protocol.units import Bytes, MilliCpu, quantity_text_cpu, quantity_text_memory

    if slack is None or not (slack["placeholders"] or slack["coming"]):
        return
    room = f"{quantity_text_cpu(MilliCpu(slack['cpu']))} cpu, {quantity_text_memory(Bytes(slack['memory']))} memory"
    placeholders = count_text(slack["placeholders"], "placeholder")
    yield f"room kept for pods to come: {placeholders} ({room}), {slack['coming']} more on new nodes"
    yield f"  for: {', '.join(f'{source} ({count})' for source, count in slack['sources'].items())}"
    yield f"  nodes that stand for this alone: {slack['nodesForSlackAlone']}"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        print("\n".join(columns([headings, *rows])))


def _reason(reason: Mapping[str, Any]) -> tuple[str, ...]:
    words = reason["text"] + (f" ({reason['detail']})" if reason.get("detail") else "")
    where = f" on {reason['closest']}" if reason.get("closest") and reason["nodes"] > 1 else ""
    short = _amounts(reason) + where if reason["short"] else ""
    return words, str(reason["nodes"] or ""), short, ", ".join(reason["objects"])


def _amounts(reason: Mapping[str, Any]) -> str:
    from slackwater.explain.events import amounts

    return ", ".join(amounts(reason))


def _group(word: Mapping[str, Any]) -> tuple[str, str]:
    why = "; ".join(f"{reason['text']}{_more(reason)}" for reason in word["reasons"])
    return word["group"], why or "would help"


def _more(reason: Mapping[str, Any]) -> str:
    parts = [reason.get("detail", ""), _amounts(reason)]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""
