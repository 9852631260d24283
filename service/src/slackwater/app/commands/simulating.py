"""What every `slackwater simulate ...` has in common: a cluster's file and a configuration in, JSON or a table out."""

import argparse
import gc
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slackwater.app.commands.failure import CommandFailed
from slackwater.app.commands.output import add_output, as_json
from slackwater.app.commands.progress import Progress, shown
from slackwater.app.commands.sources import name_of, settings_from

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings

Answers = Iterable[Mapping[str, Any]]


def add_options(parser: argparse.ArgumentParser, *, config: str) -> None:
    """`config` says what of the configuration counts."""
    parser.add_argument("--cluster", metavar="F", required=True, help="JSON or YAML; - for stdin")
    parser.add_argument("--config", metavar="F", help=f"Slackwater's configuration file{config}")
    parser.add_argument(
        "--accounting", action="store_true", help="add our own rules: missing requests, system amounts, Reserved"
    )
    add_output(parser)


def tell(
    args: argparse.Namespace,
    answer: Callable[["Cluster", "Settings"], Answers],
    table: Callable[[Answers], Iterator[str]],
    *,
    each_pod: bool = False,
) -> int:
    """Writes the answers, each as a line of JSON or all as a table; the exit code. Raises `CommandFailed`.

    `each_pod`: there is an answer for each pending pod.
    """
    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.reading import load_cluster

    if args.cluster == args.config == "-":
        raise CommandFailed(["--cluster and --config: got - twice, want at most one of them from stdin"])
    settings = settings_from(args.config)
    try:
        with shown() as progress:
            progress.step(f"reading {os.path.basename(name_of(args.cluster))}")
            cluster = load_cluster(args.cluster)
            gc.freeze()  # what was read stays: no need to look through it again and again while planning
            pending = sum(pod.node is None and not pod.ended for pod in cluster.pods)
            progress.step(f"planning: {pending} pending pods, {len(cluster.nodes)} nodes")
            found = answer(cluster, settings)
            if each_pod:
                found = progress.counted(found, "judging pods", total=pending)
            _write(_json(found) if as_json(args) else table(found), progress)
    except ClusterError as err:
        raise CommandFailed([f"{name_of(args.cluster)}: {err}"]) from err
    return 0


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
