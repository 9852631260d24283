"""`slackwater simulate scale-down`: which nodes of a file could go together, and where would their pods live."""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slackwater.app.commands.columns import columns
from slackwater.app.commands.failure import CommandFailed
from slackwater.app.commands.sources import name_of, settings_from

_DESCRIPTION: Final = """\
Finds nodes that could all be removed together now: each pod that has to move gets a place on a node that stays. Groups come
from the configuration, with their minima; a group's nodes are those whose label slackwater.dev/node-group names it. Without
groups in the configuration those that labels name are planned with, and without such labels all nodes. Timers, cool-downs
and limits on what is removed at the same time are not applied. Exit code 0: planned; 2: the file or the configuration
cannot be read.
"""
_EXAMPLES: Final = """\
examples:
  kubectl get nodes,pods,namespaces,poddisruptionbudgets,pvc,pv,storageclasses,csinodes -A -o json > cluster.json
  slackwater simulate scale-down --cluster cluster.json --config slackwater.yaml           which nodes, and why not the others?
  slackwater simulate scale-down --cluster cluster.json --config slackwater.yaml -o json   where would each pod go?
"""
#: How many nodes of one reason the table names.
_MOST_NODES: Final = 3


def add_scale_down(what: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = what.add_parser(
        "scale-down",
        help="which nodes could go together, and why the others stay",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cluster", metavar="F", required=True, help="JSON or YAML; - for stdin")
    parser.add_argument("--config", metavar="F", help="Slackwater's configuration file: groups, thresholds, rules")
    parser.add_argument(
        "--accounting", action="store_true", help="add our own rules: missing requests, system amounts, Reserved"
    )
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table", help="default: table")
    parser.set_defaults(run=run_scale_down)


def run_scale_down(args: argparse.Namespace) -> int:
    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.reading import load_cluster
    from slackwater.app.offline.scaledown import scale_down_answer

    if args.cluster == args.config == "-":
        raise CommandFailed(["--cluster and --config: got - twice, want at most one of them from stdin"])
    settings = settings_from(args.config)
    try:
        cluster = load_cluster(args.cluster)
        gc.freeze()  # what was read stays: no need to look through it again and again while planning
        answer = scale_down_answer(cluster, settings, accounting=args.accounting)
    except ClusterError as err:
        raise CommandFailed([f"{name_of(args.cluster)}: {err}"]) from err
    for line in _json(answer) if args.output == "json" else _table(answer):
        sys.stdout.write(line + "\n")
    return 0


def _json(answer: Mapping[str, Any]) -> Iterator[str]:
    import msgspec

    yield msgspec.json.encode(answer).decode()


def _table(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [(found["node"], str(len(found["destinations"])), found["worth"]) for found in answer["removable"]]
    yield from columns([("NODE", "PODS", "WORTH"), *rows])
    total = len(answer["removable"]) + len(answer["kept"])
    yield f"{len(answer['removable'])} of {total} nodes can go together"
    if answer["kept"]:
        yield ""
        yield from columns([("STAY", "REASON", "FOR EXAMPLE"), *_why(answer)])
    for note in answer.get("skipped", ()):
        yield f"not judged: {note}"


def _why(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The most frequent reasons first, each with a few of its nodes."""
    counts = Counter(kept["reason"] for kept in answer["kept"])
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        found = [kept for kept in answer["kept"] if kept["reason"] == reason][:_MOST_NODES]
        yield str(count), reason, "; ".join(f"{kept['node']}: {_detail(kept)}" for kept in found)


def _detail(kept: Mapping[str, Any]) -> str:
    blocked_by = kept["blockedBy"]
    return kept["detail"] if blocked_by is None else f"{blocked_by}: {kept['detail']}"
