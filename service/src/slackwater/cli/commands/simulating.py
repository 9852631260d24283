"""What every `slackwater simulate ...` has in common: a cluster and a configuration in, JSON or a table out.

The cluster is that of a file, or of a running service, which then answers itself; as it is, or with what `--suppose` says.
"""

import argparse
import gc
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.asking import add_listener
from slackwater.cli.commands.failure import CommandFailed
from slackwater.cli.commands.output import add_output, as_json
from slackwater.cli.commands.sources import name_of, settings_from
from slackwater.cli.commands.supposing import answered_live, check_sources, supposed

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings
    from slackwater.ports.protocols import Question

Answers = Iterable[Mapping[str, Any]]


def add_options(parser: argparse.ArgumentParser, *, config: str) -> None:
    """`config` says what of the configuration counts."""
    cluster = parser.add_mutually_exclusive_group(required=True)
    cluster.add_argument("--cluster", metavar="F", help="JSON or YAML; - for stdin")
    cluster.add_argument("--live", action="store_true", help="the cluster that a running service sees")
    parser.add_argument(
        "--suppose", metavar="F", help="with changes: `objects` besides, `remove`, `configuration`; JSON or YAML, - for stdin"
    )
    parser.add_argument("--config", metavar="F", help=f"Slackwater's configuration file{config}")
    parser.add_argument(
        "--accounting", action="store_true", help="add our own rules: missing requests, system amounts, Reserved"
    )
    add_output(parser)
    add_listener(parser)


def tell(
    args: argparse.Namespace,
    answer: Callable[["Cluster", "Settings"], Answers],
    table: Callable[[Answers], Iterator[str]],
    question: "Question",
) -> int:
    """Writes the answers, each as a line of JSON or all as a table; the exit code. Raises `CommandFailed`."""
    check_sources(args)
    if args.live:
        told = list(answered_live(args, question))
        _write(_json(told) if as_json(args) else table(told), Progress(None))
        return 0
    from slackwater.app.offline import ClusterError

    settings = settings_from(args.config)
    try:
        with shown() as progress:
            found = _planned(args, settings, answer, question, progress)
            _write(_json(found) if as_json(args) else table(found), progress)
    except ClusterError as err:
        raise CommandFailed([f"{name_of(args.cluster)}: {err}"]) from err
    return 0


def _planned(
    args: argparse.Namespace,
    settings: "Settings",
    answer: Callable[["Cluster", "Settings"], Answers],
    question: "Question",
    progress: Progress,
) -> Answers:
    from slackwater.app.offline.reading import load_cluster

    progress.step(f"reading {os.path.basename(name_of(args.cluster))}")
    cluster, settings = supposed(args, load_cluster(args.cluster), settings)
    gc.freeze()  # what was read stays: no need to look through it again and again while planning
    pending = sum(pod.node is None and not pod.ended for pod in cluster.pods)
    progress.step(f"planning: {pending} pending pods, {len(cluster.nodes)} nodes")
    found = answer(cluster, settings)
    return progress.counted(found, "judging pods", total=pending) if question == "placement" else found


def _write(lines: Iterable[str], progress: Progress) -> None:
    for line in lines:
        if not _to_file():
            progress.clear()  # somebody reads this on the same terminal
        sys.stdout.write(line + "\n")


def _to_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return False


def not_judged(answers: Answers) -> Iterator[str]:
    """Lines about what the file did not have, each once."""
    for note in dict.fromkeys(note for answer in answers for note in answer.get("skipped", ())):
        yield f"not judged: {note}"


def _json(answers: Answers) -> Iterator[str]:
    import msgspec

    return (msgspec.json.encode(answer).decode() for answer in answers)
