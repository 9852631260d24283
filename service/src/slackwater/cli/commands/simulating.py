"""What every `slackwater simulate ...` has in common: a cluster and a configuration in, JSON or a table out.

The cluster is that of a file, or of a running service, which then answers itself; as it is, or with what `--suppose` says.
"""

import argparse
import gc
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.asking import add_listener, fetch
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed
from slackwater.cli.commands.output import add_output, as_json
from slackwater.cli.commands.sources import name_of, settings_from

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings
    from slackwater.ports.protocols import Question


def check_sources(args: argparse.Namespace) -> None:
    """Raises `CommandFailed` where two files are to come from stdin, or a running service is to have other settings."""
    given = [option for option in ("cluster", "config", "suppose") if getattr(args, option) == "-"]
    if len(given) > 1:
        twice = " and ".join(f"--{option}" for option in given)
        raise CommandFailed([f"{twice}: got - twice, want at most one of them from stdin"])
    if args.live and args.config is not None:
        raise CommandFailed(["--config: got it with --live, want the service's own, with `configuration` in --suppose"])


def supposed(args: argparse.Namespace, cluster: "Cluster", settings: "Settings") -> tuple["Cluster", "Settings"]:
    """As `--suppose` says, or as they are. Raises `CommandFailed` with the place of what is wrong."""
    if args.suppose is None:
        return cluster, settings
    from slackwater.adapters.http.whatif import supposed_of
    from slackwater.app.settings import SettingsError
    from slackwater.app.whatif.configuring import configured
    from slackwater.app.whatif.supposing import suppose
    from slackwater.ports.protocols import WhatIfRefused

    try:
        said = supposed_of(json.dumps(_document(args.suppose)).encode())
        settings = configured(settings, said.configuration)
        return suppose(cluster, objects=said.objects, remove=said.remove), settings
    except WhatIfRefused as refused:
        raise CommandFailed([f"{name_of(args.suppose)}: {refused}"]) from refused
    except SettingsError as error:
        raise CommandFailed([f"{name_of(args.suppose)}: {line}" for line in error.lines()]) from error


def answered_live(args: argparse.Namespace, question: "Question") -> Iterator[Mapping[str, Any]]:
    """The lines that the running service answers. Raises `CommandFailed`."""
    body = {} if args.suppose is None else _document(args.suppose)
    options = {name: True for name in ("accounting", "sequential") if getattr(args, name, False)}
    path = f"/simulate/{question}"
    told = fetch(path, args, json.dumps({**body, **options}).encode())
    try:
        for line in told.splitlines():
            yield json.loads(line)
    except ValueError as error:
        raise CommandFailed([f"{args.url}{path}: got no JSON: {error}"], code=ANSWERED_NO) from error


def _document(path: str) -> dict[str, Any]:
    """JSON or YAML; what options say is not for it."""
    import msgspec

    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.reading import documents, file_bytes
    from slackwater.app.offline.shape import NESTED_TOO_DEEPLY

    try:
        found = [msgspec.json.decode(document) for document in documents(file_bytes(path))]
    except (ClusterError, ValueError) as error:
        raise CommandFailed([f"{name_of(path)}: {error}"]) from error
    except RecursionError as error:
        raise CommandFailed([f"{name_of(path)}: {NESTED_TOO_DEEPLY}"]) from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise CommandFailed([f"{name_of(path)}: got no mapping, want one with objects, remove, configuration"])
    for option in ("accounting", "sequential"):
        if option in found[0]:
            raise CommandFailed([f"{name_of(path)}: {option}: got it in the file, want the option --{option}"])
    return found[0]


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
