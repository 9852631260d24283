"""Implements the common part of all `slackwater simulate` commands: reads a cluster and a configuration, prints JSON or a
table.

The cluster is read from a file or from the API server. With `--live` a running service answers for its own cluster instead.
`--suppose` changes the cluster for the simulation.
"""

import argparse
import gc
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands import ops_client
from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.ops_client import add_listener, url_of
from slackwater.cli.commands.output import (
    BAD_INPUT,
    FORBIDDEN,
    NO_ANSWER,
    NOT_FOUND,
    CommandFailed,
    add_output,
    as_json,
    name_of,
    settings_from,
)
from slackwater.model.texts import summed_up
from slackwater_protocol.names import NODE_GROUP

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.offline.files import RightsLacking
    from slackwater.app.offline.version import VersionRequest
    from slackwater.app.settings import Settings
    from slackwater.app.simulation import Simulation, SimulationError
    from slackwater.ports.protocols import Question

NOTHING_PENDING: Final = "no pod is pending: each has a node or has ended"
#: At least this many equal rows are merged into one.
_MANY: Final = 3


def check_sources(args: argparse.Namespace) -> None:
    """Raises `CommandFailed` if two files would be read from stdin, or if an option contradicts `--live`."""
    given = [option for option in ("cluster", "config", "suppose") if getattr(args, option) == "-"]
    if len(given) > 1:
        twice = " and ".join(f"--{option}" for option in given)
        raise CommandFailed([f"{twice}: got - twice, want at most one of them from stdin"])
    for option in ("kubernetes_version", "feature_gates"):
        if args.live and getattr(args, option) is not None:
            raise CommandFailed([f"--{option.replace('_', '-')}: got it with --live, want the service's own"])
    if args.live and args.config is not None:
        raise CommandFailed(["--config: got it with --live, want the service's own, with `configuration` in --suppose"])


def supposed(args: argparse.Namespace, simulation: "Simulation") -> "Simulation":
    """Makes the changes of the file `--suppose`. Raises `CommandFailed`, which says where in the file an error is."""
    if getattr(args, "suppose", None) is None:
        return simulation
    from slackwater.adapters.http.questions import supposed_of
    from slackwater.app.simulation import SimulationError
    from slackwater.ports.protocols import WhatIfRefused

    try:
        said = supposed_of(json.dumps(_document(args.suppose)).encode())
        return simulation.suppose(objects=said.objects, remove=said.remove, configuration=said.configuration)
    except WhatIfRefused as refused:
        raise CommandFailed([f"{name_of(args.suppose)}: {refused}"]) from refused
    except SimulationError as error:
        raise CommandFailed([f"{name_of(args.suppose)}: {line}" for line in error.lines]) from error


def answered_live(args: argparse.Namespace, question: "Question") -> Iterator[Mapping[str, Any]]:
    """Asks the running service, and yields its answers, one for each line. Raises `CommandFailed`."""
    body = {} if args.suppose is None else _document(args.suppose)
    options = {name: True for name in ("accounting", "sequential") if getattr(args, name, False)}
    path = f"/simulate/{question}"
    reply = ops_client.fetch(path, args, json.dumps({**body, **options}).encode())
    try:
        for line in reply.splitlines():
            yield json.loads(line)
    except ValueError as error:
        raise CommandFailed([f"{url_of(args)}{path}: got no JSON: {error}"], code=NO_ANSWER) from error


def _document(path: str) -> dict[str, Any]:
    """Reads the file of `--suppose`, JSON or YAML. Raises `CommandFailed` if it contains keys for which there are options."""
    import msgspec

    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.files import documents
    from slackwater.app.offline.shapes import NESTED_TOO_DEEPLY
    from slackwater.app.offline.sources import file_bytes

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


Answers = Iterable[Mapping[str, Any]]


def add_options(parser: argparse.ArgumentParser, *, config: str) -> None:
    """Adds the options of all simulations. `config` is appended to the help text of `--config`."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--cluster", metavar="F", help="a file or folder, JSON or YAML; - for stdin (default: the kubeconfig's cluster)"
    )
    source.add_argument("--live", action="store_true", help="the cluster that a running service sees")
    add_cluster(parser)
    add_version(parser)
    parser.add_argument(
        "--suppose",
        metavar="F",
        help="change the cluster first: `objects` to add, `remove`, `configuration`; JSON or YAML, - for stdin",
    )
    parser.add_argument("--config", metavar="F", help=f"Slackwater's configuration file{config}")
    parser.add_argument(
        "--accounting", action="store_true", help="add our own rules: missing requests, system amounts, Reserved"
    )
    add_output(parser)
    add_listener(parser)


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which kube-scheduler's rules apply: version and feature gates."""
    parser.add_argument(
        "--kubernetes-version",
        metavar="X",
        help="follow this version of kube-scheduler, like 1.35 (default: the cluster's, or that of its pod in the file)",
    )
    parser.add_argument("--feature-gates", metavar="G", help="of kube-scheduler: Name=true,Name=false")


def _namespace_asked(args: argparse.Namespace) -> str | None:
    """The namespace of the pod or workload that is asked about. Something can be said of it without the right to list nodes."""
    namespace, slash, _ = str(getattr(args, "name", "")).partition("/")
    return namespace if slash else None


def _of_service(args: argparse.Namespace, request: "VersionRequest") -> "Cluster":
    """The cluster as the running service sees it. Raises `CommandFailed` and `ClusterError`."""
    import msgspec

    from slackwater.app.offline.files import load_dump

    dump = ops_client.fetch("/dumpstate", args)
    return load_dump(msgspec.Raw(dump), accounting=getattr(args, "accounting", False), request=request)


def _in_place_of_objects(args: argparse.Namespace, lacking: "RightsLacking", request: "VersionRequest") -> "Cluster":
    """The cluster as the running service sees it, for an account that may not list nodes and pods, and may ask the service.
    Raises `CommandFailed` and `ClusterError`."""
    try:
        cluster = _of_service(args, request)
    except CommandFailed as failed:
        raise CommandFailed([f"{source_name(args)}: {lacking}", *failed.lines], code=FORBIDDEN) from failed
    print(f"slackwater: note: {lacking.problem}; read from the running service instead", file=sys.stderr)
    return cluster


def source_name(args: argparse.Namespace) -> str:
    """The name of the cluster in errors: the file's name, or "the cluster"."""
    return "the cluster" if args.cluster is None else name_of(args.cluster)


def failed(error: "SimulationError") -> CommandFailed:
    """The failure of a command that says what the library says, and calls an argument as the command line does."""
    from slackwater.app.simulation import ClusterUnreachable, NoSuchObject

    option = f"--{error.argument.replace('_', '-')}: " if error.argument else ""
    match error:
        case NoSuchObject():
            code = NOT_FOUND
        case ClusterUnreachable():
            code = NO_ANSWER
        case _:
            code = BAD_INPUT
    return CommandFailed([f"{option}{line}" for line in error.lines], code=code)


def report(
    args: argparse.Namespace,
    question: "Question",
    ask: Callable[["Simulation"], Iterable[object]],
    table: Callable[[Answers], Iterator[str]],
) -> int:
    """Asks a simulation, or with `--live` the service. Prints each answer as a line of JSON, or all as a table. Returns the
    exit code. Raises `CommandFailed`."""
    check_sources(args)
    if args.live:
        reply = list(answered_live(args, question))
        _write(_json(reply) if as_json(args) else table(reply), Progress(None))
        return 0
    from msgspec import to_builtins

    from slackwater.app.simulation import SimulationError

    try:
        with shown(forced=args.progress) as progress:
            simulation = read_simulated(args, progress)
            cluster = simulation.cluster
            _check_complete(args, cluster, simulation.settings, question)
            pending = sum(pod.pending for pod in cluster.pods)
            if question == "placement" and not pending:  # there is no line that could say this
                unknown = [f"pods are unknown: {cluster.lack('Pod')}"] if "Pod" in cluster.unknown and not cluster.pods else []
                remarks = cluster.remarks if as_json(args) else summed_up(cluster.remarks)
                said = (*remarks, *(f"not judged: {each}" for each in (*cluster.unread, *unknown)))
                print("".join(f"{each}\n" for each in said), end="", file=sys.stderr if as_json(args) else sys.stdout)
                if unknown:
                    return 0
            gc.freeze()  # the objects that were read are kept to the end, so garbage collections need not scan them
            progress.step(f"planning: {pending} pending pods, {len(cluster.nodes)} nodes")
            found = ask(simulation)
            if question == "placement":
                found = progress.counted(found, "judging pods", total=pending)
            _write(_json(found) if as_json(args) else table(map(to_builtins, found)), progress)
    except SimulationError as error:
        raise failed(error) from error
    return 0


def read_simulated(args: argparse.Namespace, progress: Progress) -> "Simulation":
    """Reads the cluster of the file `--cluster`, or else of the kubeconfig, with the settings and changes that the options say.
    Prints notes to stderr. Raises `CommandFailed`."""
    from slackwater.app.offline.files import RightsLacking, fetch_cluster, load_cluster
    from slackwater.app.simulation import SimulationError, beside, simulation_of

    def read(request: "VersionRequest") -> "Cluster":
        if args.cluster is None and args.url is not None:
            return _of_service(args, request)
        if args.cluster is None:
            work = partial(
                fetch_cluster,
                report=progress.step,
                counted=progress.at,
                request=request,
                namespace=_namespace_asked(args),
            )
            try:
                return with_cluster(args, work, instead="--cluster F")
            except RightsLacking as lacking:
                return _in_place_of_objects(args, lacking, request)
        progress.step(f"reading {os.path.basename(name_of(args.cluster))}")
        return load_cluster(args.cluster, accounting=accounting, request=request)

    accounting = getattr(args, "accounting", False)
    try:
        simulation = simulation_of(
            read,
            source_name(args),
            settings=None if args.config is None else beside(settings_from(args.config), args.config),
            accounting=accounting,
            group_label=getattr(args, "group_label", None),
            kubernetes_version=args.kubernetes_version,
            feature_gates=args.feature_gates,
        )
        for note in simulation.notes:
            print(note, file=sys.stderr)
        return supposed(args, simulation)
    except SimulationError as error:
        raise failed(error) from error


def _check_complete(args: argparse.Namespace, cluster: "Cluster", settings: "Settings", question: "Question") -> None:
    """Raises `CommandFailed` if the cluster has no objects or groups about which the question could be answered. The error says
    what to do."""
    from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS, labelled_groups

    file = source_name(args)
    if not as_json(args) and not cluster.nodes and question != "scale-up":
        raise CommandFailed([f"{file}: got no node, want nodes too: `kubectl get nodes,pods -A -o json`"])
    if question == "scale-up" and not labelled_groups(cluster.nodes, settings.autoscaler.node_groups):
        raise CommandFailed(
            [
                f"{file}: got no node group: no node has a label {NODE_GROUP}, {', '.join(CLOUD_GROUP_LABELS)}",
                "name the label of your nodes' groups with --group-label KEY, or the groups in --config F",
            ]
        )


def _write(lines: Iterable[str], progress: Progress) -> None:
    for line in lines:
        if not _to_file():
            progress.clear()  # progress and table are on the same terminal
        sys.stdout.write(line + "\n")


def _to_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return False


def add_group_label(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group-label",
        metavar="KEY",
        help="the label that names a node's group; without it slackwater.dev/node-group and the labels of EKS, GKE, AKS, "
        "Karpenter, DigitalOcean and kops",
    )


def merged(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Merges the rows, whose first cell is a pod: `_MANY` or more rows that differ only in the pod become one, which counts the
    pods and names the first."""
    pods: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        pods.setdefault(row[1:], []).append(row[0])
    for cells, found in pods.items():
        if len(found) < _MANY:
            yield from ((pod, *cells) for pod in found)
        else:
            yield f"{len(found)} pods, such as {found[0]}", *cells


def notes(answers: Answers) -> Iterator[str]:
    """Lines that name what was added because the file lacks it, and the rules that were skipped because it lacks a kind of
    object; each once."""
    answers = list(answers)
    yield from summed_up(list(dict.fromkeys(remark for answer in answers for remark in answer.get("remarks", ()))))
    for note in dict.fromkeys(note for answer in answers for note in answer.get("skipped", ())):
        yield f"not judged: {note}"


def _json(answers: Iterable[object]) -> Iterator[str]:
    import msgspec

    return (msgspec.json.encode(answer).decode() for answer in answers)
