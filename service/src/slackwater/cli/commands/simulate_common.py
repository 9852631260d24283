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
from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.ops_client import add_listener, fetch, url_of
from slackwater.cli.commands.output import ANSWERED_NO, CommandFailed, add_output, as_json, name_of, settings_from
from slackwater.model.texts import summed_up
from slackwater_protocol.names import NODE_GROUP

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.offline.version import VersionRequest
    from slackwater.app.settings import Settings
    from slackwater.ports.protocols import Question

#: The most labels that an error names.
_MOST_LABELS: Final = 20
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


def supposed(args: argparse.Namespace, cluster: "Cluster", settings: "Settings") -> tuple["Cluster", "Settings"]:
    """Applies the changes of the file `--suppose` to the cluster and the settings. Raises `CommandFailed`, which says where in
    the file an error is."""
    if getattr(args, "suppose", None) is None:
        return cluster, settings
    from slackwater.adapters.http.questions import supposed_of
    from slackwater.app.settings import SettingsError
    from slackwater.app.whatif.suppose import configured, suppose
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
    """Asks the running service, and yields its answers, one for each line. Raises `CommandFailed`."""
    body = {} if args.suppose is None else _document(args.suppose)
    options = {name: True for name in ("accounting", "sequential") if getattr(args, name, False)}
    path = f"/simulate/{question}"
    reply = fetch(path, args, json.dumps({**body, **options}).encode())
    try:
        for line in reply.splitlines():
            yield json.loads(line)
    except ValueError as error:
        raise CommandFailed([f"{url_of(args)}{path}: got no JSON: {error}"], code=ANSWERED_NO) from error


def _document(path: str) -> dict[str, Any]:
    """Reads the file of `--suppose`, JSON or YAML. Raises `CommandFailed` if it contains keys for which there are options."""
    import msgspec

    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.files import documents
    from slackwater.app.offline.objects import NESTED_TOO_DEEPLY
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


def version_request(args: argparse.Namespace, settings: "Settings") -> "VersionRequest":
    """The version and feature gates of kube-scheduler, from the options or else the configuration. Raises `CommandFailed`."""
    from slackwater.app.offline.version import VersionRequest
    from slackwater.model.kubernetes_rules import OLDEST_MINOR, KubernetesVersion, read_gates

    try:
        gates = read_gates(settings.scheduler.feature_gates if args.feature_gates is None else args.feature_gates)
    except ValueError as err:
        raise CommandFailed([f"--feature-gates: {err}"]) from err
    if args.kubernetes_version is None:
        return VersionRequest(version=settings.scheduler.stated, gates=gates)
    try:
        version = KubernetesVersion.parse(args.kubernetes_version)
    except ValueError as err:
        raise CommandFailed([f"--kubernetes-version: {err}"]) from err
    if version.minor < OLDEST_MINOR:
        raise CommandFailed([f"--kubernetes-version: got {version}, want 1.{OLDEST_MINOR} or newer"])
    return VersionRequest(version=version, gates=gates)


def read_source(args: argparse.Namespace, progress: Progress, settings: "Settings") -> "Cluster":
    """Reads the cluster from the file `--cluster`, or else from the kubeconfig's API server. Raises `ClusterError` and
    `CommandFailed`. Prints to stderr if the version is not supported, and which feature gates have no effect here."""
    from slackwater.app.offline.files import fetch_cluster, load_cluster

    request = version_request(args, settings)
    if args.cluster is None:
        cluster = with_cluster(args, partial(fetch_cluster, report=progress.step, request=request), instead="--cluster F")
    else:
        progress.step(f"reading {os.path.basename(name_of(args.cluster))}")
        cluster = load_cluster(args.cluster, accounting=getattr(args, "accounting", False), request=request)
    version = cluster.kubernetes.version
    if version.note:
        print(version.note, file=sys.stderr)
    if version.unread_gates:
        print(f"feature gates without effect here: {', '.join(version.unread_gates)}", file=sys.stderr)
    return cluster


def source_name(args: argparse.Namespace) -> str:
    """The name of the cluster in errors: the file's name, or "the cluster"."""
    return "the cluster" if args.cluster is None else name_of(args.cluster)


def report(args: argparse.Namespace, question: "Question", table: Callable[[Answers], Iterator[str]]) -> int:
    """Simulates on a cluster that is read, or with `--live` asks the service. Prints each answer as a line of JSON, or all as a
    table. Returns the exit code. Raises `CommandFailed`."""
    check_sources(args)
    if args.live:
        reply = list(answered_live(args, question))
        _write(_json(reply) if as_json(args) else table(reply), Progress(None))
        return 0
    from msgspec import to_builtins

    from slackwater.app.offline import ClusterError
    from slackwater.app.settings import SettingsError
    from slackwater.app.whatif.question import answers

    try:
        with shown() as progress:
            cluster, settings = read_simulated(args, progress)
            _check_complete(args, cluster, settings, question)
            pending = sum(pod.node is None and not pod.ended for pod in cluster.pods)
            if question == "placement" and not pending:  # there is no line that could say this
                unknown = [f"pods are unknown: no Pod {cluster.where}"] if "Pod" in cluster.unknown and not cluster.pods else []
                remarks = cluster.remarks if as_json(args) else summed_up(cluster.remarks)
                said = (*remarks, *(f"not judged: {each}" for each in (*cluster.unread, *unknown)))
                print("".join(f"{each}\n" for each in said), end="", file=sys.stderr if as_json(args) else sys.stdout)
                if unknown:
                    return 0
            gc.freeze()  # the objects that were read are kept to the end, so garbage collections need not scan them
            progress.step(f"planning: {pending} pending pods, {len(cluster.nodes)} nodes")
            sequential = getattr(args, "sequential", False)
            found = answers(question, cluster, settings, accounting=args.accounting, sequential=sequential)
            if question == "placement":
                found = progress.counted(found, "judging pods", total=pending)
            _write(_json(found) if as_json(args) else table(map(to_builtins, found)), progress)
    except ClusterError as err:
        raise CommandFailed([f"{source_name(args)}: {err}"]) from err
    except SettingsError as err:  # the table of prices
        raise CommandFailed(err.lines()) from err
    return 0


def read_simulated(args: argparse.Namespace, progress: Progress) -> tuple["Cluster", "Settings"]:
    """The cluster and the settings to simulate with, as the options say. Raises `ClusterError` and `CommandFailed`."""
    settings = _simulated_settings(args.config)
    cluster = read_source(args, progress, settings)
    cluster, settings = supposed(args, cluster, _carried(args, cluster, settings))
    return _by_profiles(_grouped(args, cluster), settings), settings


def _simulated_settings(config: str | None) -> "Settings":
    """The settings of the file `config`. A file that it names by a relative path that the working directory lacks lies beside
    it. Raises `CommandFailed`."""
    settings, folder = settings_from(config), os.path.dirname(config or "")

    def path_of(named: str, _: str) -> str:
        return named if os.path.exists(named) else os.path.join(folder, named)

    return _with_paths(settings, path_of)


def _with_paths(settings: "Settings", path_of: Callable[[str, str], str | None]) -> "Settings":
    """The settings with the paths of their files replaced by `path_of`, which gets each path and what happens without it."""
    extender, autoscaler = settings.extender, settings.autoscaler
    if (path := extender.scheduler_config) is not None:
        found = path_of(path, "pods are judged by kube-scheduler's default profile")
        extender = extender.model_copy(update={"scheduler_config": found})
    prices = autoscaler.prices
    if prices is not None and prices.table is not None:
        prices = prices.model_copy(update={"table": path_of(prices.table, "nodes are priced without the table")})
        autoscaler = autoscaler.model_copy(update={"prices": prices})
    return settings.model_copy(update={"extender": extender, "autoscaler": autoscaler})


def _carried(args: argparse.Namespace, cluster: "Cluster", settings: "Settings") -> "Settings":
    """The settings to simulate with: those of `--config`, or else those that the dump of a service has in it. The files that
    these name were on the service's machine. Raises `CommandFailed`."""
    from slackwater.app.settings import SettingsError, loads

    if args.config is not None or not cluster.configuration:
        return settings
    try:
        settings = loads(json.dumps(cluster.configuration), source=f"{source_name(args)}: configuration")
    except SettingsError as error:
        raise CommandFailed([*error.lines(), "want a configuration with --config F instead"]) from error

    def path_of(named: str, without: str) -> str | None:
        if os.path.exists(named):
            return named
        print(f"{named} is not here: {without}", file=sys.stderr)
        return None

    return _with_paths(settings, path_of)


def _by_profiles(cluster: "Cluster", settings: "Settings") -> "Cluster":
    """The cluster whose pods are judged by the profiles of `extender.schedulerConfig`. Raises `CommandFailed`."""
    from slackwater.app.offline.cluster import with_profiles
    from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
    from slackwater.app.settings import SettingsError

    try:
        return with_profiles(cluster, filter_profiles_of(settings))
    except SettingsError as error:
        raise CommandFailed(error.lines()) from error


def _grouped(args: argparse.Namespace, cluster: "Cluster") -> "Cluster":
    """Assigns each node of the cluster to the node group that its label names: the label of `--group-label`, or else the label
    of a known cloud."""
    from dataclasses import replace

    from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS, with_group_labels

    key, nodes = getattr(args, "group_label", None), cluster.nodes
    if key is not None and nodes and not any(key in node.labels for node in nodes):
        seen = ", ".join(sorted({label for node in nodes for label in node.labels})[:_MOST_LABELS])
        raise CommandFailed([f"--group-label: got {key}, which no node has, want one of the nodes' labels: {seen}"])
    return replace(cluster, nodes=with_group_labels(nodes, CLOUD_GROUP_LABELS if key is None else (key,)))


def _check_complete(args: argparse.Namespace, cluster: "Cluster", settings: "Settings", question: "Question") -> None:
    """Raises `CommandFailed` if the cluster has no objects or groups about which the question could be answered. The error says
    what to do."""
    from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS, labelled_groups

    file = source_name(args)
    if not cluster.nodes and not cluster.pods:
        wanted = f"{file}: got no node and no pod, want what `kubectl get nodes,pods -A -o json` prints"
        raise CommandFailed([wanted, *(f"not read: {each}" for each in cluster.unread)])
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
