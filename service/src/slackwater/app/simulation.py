"""What-if as a library: a cluster that is read once, and the answers about it. docs/library.md is its page.

    simulation = from_file("cluster.json", config="slackwater.yaml")
    simulation.scale_up().groups[0].new_nodes

In: a file, objects or a kubeconfig, and a configuration. Out: a `Simulation`, whose methods give the values that `slackwater
simulate`, `explain` and `worth` print; these commands ask it too. It only reads the cluster. The package exports the public
names. Every error is a `SimulationError`, which says what was wrong, where, and what would be right.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack, get_args

import msgspec

from slackwater.app.offline.cluster import Cluster, read_cluster, with_profiles
from slackwater.app.offline.files import fetch_cluster, load_cluster
from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS, with_group_labels
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.version import VersionRequest
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
from slackwater.app.settings import Settings, SettingsError, load, loads
from slackwater.app.whatif.question import placements
from slackwater.app.whatif.suppose import configured, suppose
from slackwater.model.ids import UnixTime
from slackwater.model.kubernetes_rules import OLDEST_MINOR, KubernetesVersion, read_gates
from slackwater.model.texts import count_text
from slackwater.ports.protocols import WhatIfRefused
from slackwater.ports.whatif_answers import ConsolidationAnswer, PlacementLine, ScaleDownAnswer, ScaleUpAnswer

if TYPE_CHECKING:  # each is imported by the method that needs it
    from slackwater.app.worth.answer import WorthAnswer
    from slackwater.app.worth.use import Use
    from slackwater.explain.findings import Explanation

T = TypeVar("T")
Explainable = Literal["pod", "node", "group"]
#: The most labels that an error names.
_MOST_LABELS: Final = 20
_LONGEST_HORIZON: Final = timedelta(days=3_660)


class SimulationError(Exception):
    """No answer can be given. `lines`: what was wrong, where, and what would be right. `argument`: the argument at fault, ""
    if none is."""

    def __init__(self, lines: Sequence[str], *, argument: str = "") -> None:
        super().__init__(lines, argument)
        self.lines = tuple(lines)
        self.argument = argument

    def __str__(self) -> str:
        return "\n".join(f"{self.argument}: {line}" if self.argument else line for line in self.lines)


class BadInput(SimulationError):
    """A file, a configuration or an argument is wrong."""


class NoSuchObject(SimulationError):
    """The cluster does not have the object to explain."""


class ClusterUnreachable(SimulationError):
    """The API server did not answer, or refused."""


class Options(TypedDict, total=False):
    """How a cluster is read and judged. `config`: the path of a configuration file, or its content as a mapping. `accounting`:
    Slackwater's own rules apply beside kube-scheduler's. `group_label`: the label that names a node's group; without it that of
    a known cloud. `kubernetes_version`, `feature_gates`: kube-scheduler's, as the options of `slackwater simulate`."""

    config: str | os.PathLike[str] | Mapping[str, Any] | None
    accounting: bool
    group_label: str | None
    kubernetes_version: str | None
    feature_gates: str | None


def from_file(path: str | os.PathLike[str], **options: Unpack[Options]) -> "Simulation":
    """Reads a file or a folder, as `slackwater simulate --cluster` does; `-` is stdin. Raises `BadInput`."""
    accounting = options.get("accounting", False)
    return simulation_of(
        lambda request: load_cluster(os.fspath(path), accounting=accounting, request=request), str(path), **options
    )


def from_objects(objects: Iterable[Mapping[str, Any]], **options: Unpack[Options]) -> "Simulation":
    """Takes objects of the Kubernetes API as dictionaries; a List may be among them. Raises `BadInput`."""
    documents = _documents(objects, "objects")
    return simulation_of(lambda request: read_cluster(*documents, request=request, add_missing=True), "objects", **options)


def from_kubeconfig(
    path: str | os.PathLike[str] | None = None, *, context: str | None = None, **options: Unpack[Options]
) -> "Simulation":
    """Lists the objects of a cluster once. Without a path: `$KUBECONFIG`, `~/.kube/config`, or the Pod's own account. It may be
    called where an event loop runs, as in a notebook, and blocks it. Raises `BadInput`, `ClusterUnreachable`."""
    from slackwater.adapters.kube.access import usual_kubeconfig
    from slackwater.adapters.kube.client import open_client

    def read(request: VersionRequest) -> Cluster:
        kubeconfig = usual_kubeconfig() if path is None else os.fspath(path)

        async def fetched() -> Cluster:
            async with open_client(kubeconfig=kubeconfig, context=context) as client:
                return await fetch_cluster(client, request=request)

        return _waited_for(fetched)

    return simulation_of(read, "the cluster", **options)


def _documents(objects: Iterable[Mapping[str, Any]], argument: str) -> list[msgspec.Raw]:
    """The objects as JSON. YAML's dates among them are written as the API server does."""
    documents = []
    for at, each in enumerate(objects):
        if not isinstance(each, Mapping):
            raise BadInput([f"[{at}]: got {type(each).__name__}, want a dictionary"], argument=argument)
        try:
            documents.append(msgspec.Raw(msgspec.json.encode(each)))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput([f"[{at}]: {error}, want what JSON can hold"], argument=argument) from error
    return documents


def _waited_for(work: Callable[[], Awaitable[T]]) -> T:
    import anyio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, work).result()


def simulation_of(
    read: Callable[[VersionRequest], Cluster], source: str, *, settings: Settings | None = None, **options: Unpack[Options]
) -> "Simulation":
    """The cluster that `read` returns. `source` names it in errors; `settings`: those of `config`, if they have been read.
    Raises `SimulationError`."""
    if odd := sorted(options.keys() - Options.__annotations__.keys()):  # Python checks no names that a TypedDict lists
        raise BadInput([f"got an unknown argument, want one of {', '.join(Options.__annotations__)}"], argument=odd[0])
    given = _settings(options.get("config")) if settings is None else settings
    with _errors(source):
        cluster = read(_version_request(options, given or Settings()))
    notes, version = list[str](), cluster.kubernetes.version
    if version.note:
        notes.append(version.note)
    if version.unread_gates:
        notes.append(f"feature gates without effect here: {', '.join(version.unread_gates)}")
    if given is None:
        given = _carried(cluster, source, notes) if cluster.configuration else Settings()
    return Simulation(
        read=cluster,
        settings=given,
        source=source,
        accounting=options.get("accounting", False),
        group_label=options.get("group_label"),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class Simulation:
    """A cluster at one moment, and how it is judged. Asking changes nothing, so the same questions have the same answers.

    `notes`: what of the version, the gates and the configuration has no effect here. The other attributes are internal: any
    release may change them. Every method raises `BadInput` for a cluster or a configuration of which nothing can be said.
    """

    read: Cluster
    settings: Settings
    source: str
    accounting: bool
    group_label: str | None
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Short, as a notebook shows each value: a cluster has megabytes of objects."""
        counts = count_text(len(self.read.nodes), "node"), count_text(len(self.read.pods), "pod")
        return f"<slackwater.Simulation of {self.source}: {', '.join(counts)}>"

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster with the groups of its nodes and the profiles of its pods. Raises `BadInput`."""
        key, found = self.group_label, self.read
        if not found.nodes and not found.pods:
            wanted = f"{self.source}: got no node and no pod, want what `kubectl get nodes,pods -A -o json` prints"
            raise BadInput([wanted, *(f"not read: {each}" for each in found.unread)])
        if key is not None and found.nodes and not any(key in node.labels for node in found.nodes):
            seen = ", ".join(sorted({label for node in found.nodes for label in node.labels})[:_MOST_LABELS])
            raise BadInput([f"got {key}, which no node has, want one of the nodes' labels: {seen}"], argument="group_label")
        nodes = with_group_labels(found.nodes, CLOUD_GROUP_LABELS if key is None else (key,))
        with _errors(self.source):
            return with_profiles(replace(found, nodes=nodes), filter_profiles_of(self.settings))

    def suppose(
        self,
        *,
        objects: Sequence[Mapping[str, Any]] = (),
        remove: Sequence[Mapping[str, str]] = (),
        configuration: Mapping[str, Any] | None = None,
    ) -> "Simulation":
        """The simulation with these changes, as `--suppose` makes them. Raises `BadInput`, which says where it is wrong."""
        plain = [msgspec.json.decode(each) for each in _documents(objects, "objects")]
        _documents(remove, "remove")
        with _errors(self.source):
            settings = configured(self.settings, configuration or {})
            return replace(self, read=suppose(self.read, objects=plain, remove=remove), settings=settings)

    def placement(self, *, sequential: bool = False) -> Iterator[PlacementLine]:
        """Where each pending pod could go, and why not elsewhere. `sequential`: each is placed before the next is judged."""
        with _errors(self.source):
            yield from placements(self.cluster, self.settings, accounting=self.accounting, sequential=sequential)

    def scale_up(self) -> ScaleUpAnswer:
        """Which nodes would be added for the pending pods, and why none helps the others."""
        from slackwater.app.offline.scaleup import scale_up_answer

        with _errors(self.source):
            return scale_up_answer(self.cluster, self.settings, accounting=self.accounting)

    def scale_down(self) -> ScaleDownAnswer:
        """Which nodes could go together now, where their pods would go, and why the others stay."""
        from slackwater.app.offline.scaledown import scale_down_answer

        with _errors(self.source):
            return scale_down_answer(self.cluster, self.settings, accounting=self.accounting)

    def consolidate(self) -> ConsolidationAnswer:
        """Which nodes would be replaced by cheaper ones, what that saves, and why the others stay."""
        from slackwater.app.offline.consolidation import consolidation_answer

        with _errors(self.source):
            return consolidation_answer(self.cluster, self.settings, accounting=self.accounting)

    def worth(
        self,
        *,
        horizon: timedelta = timedelta(days=30),
        by_label: str | None = None,
        start: datetime | None = None,
        use: "Use | None" = None,
        report: Callable[[int], None] = lambda seconds: None,
    ) -> "WorthAnswer":
        """What the service would save within `horizon`, and what keeps it from more. `start`: when the rounds begin; None: now.
        `use`: what pods use; only the command line measures it. `report` is called now and then with how many seconds of the
        horizon have been played."""
        from slackwater.app.worth.report import worth_answer

        asked: object = horizon
        if not isinstance(asked, timedelta) or not timedelta(seconds=1) <= asked <= _LONGEST_HORIZON:
            wanted = f"got {horizon}, want a timedelta of at least a second and at most {_LONGEST_HORIZON.days} days"
            raise BadInput([wanted], argument="horizon")
        cluster = self.cluster
        if not (cluster.nodes and cluster.pods):  # without pods every node would count as empty
            lacks = "pod" if cluster.nodes else "node"
            raise BadInput([f"{self.source}: got no {lacks}, want nodes and pods: `kubectl get nodes,pods -A -o json`"])
        with _errors(self.source):
            return worth_answer(
                cluster,
                self.settings,
                horizon_seconds=int(horizon.total_seconds()),
                start=UnixTime((start or datetime.now(UTC)).timestamp()),
                by_label=by_label,
                use=use,
                report=report,
            )

    def explain(self, kind: Explainable, name: str) -> "Explanation":
        """Why a pod (`namespace/name`) waits, a node stays or a group does not grow, and what would help. Raises
        `NoSuchObject`."""
        from slackwater.app.offline.explain import explain_offline

        if kind not in get_args(Explainable):
            raise BadInput([f"got {kind!r}, want one of {', '.join(get_args(Explainable))}"], argument="kind")
        namespace, _, title = name.rpartition("/")
        cluster = self.cluster
        try:
            return explain_offline(cluster, self.settings, kind, namespace, title)
        except ClusterError as error:
            raise NoSuchObject([f"{self.source}: {error}"]) from error
        except SettingsError as error:  # the table of prices
            raise BadInput(error.lines()) from error


@contextmanager
def _errors(source: str) -> Iterator[None]:
    """Errors of the parts are raised as `SimulationError`."""
    from slackwater.adapters.kube.errors import KubeConfigError, KubeError

    try:
        yield
    except ClusterError as error:
        raise BadInput([f"{source}: {error}"]) from error
    except SettingsError as error:
        raise BadInput(error.lines()) from error
    except (WhatIfRefused, KubeConfigError) as error:
        raise BadInput([str(error)]) from error
    except KubeError as error:
        raise ClusterUnreachable([str(error)]) from error


# --- settings and version -------------------------------------------------------------------------------------------------


def _settings(config: str | os.PathLike[str] | Mapping[str, Any] | None) -> Settings | None:
    """The settings of a file or a mapping; None: none are given. Raises `BadInput`."""
    try:
        if config is None:
            return None
        if isinstance(config, Mapping):
            return configured(Settings(), config)
        return beside(load(os.fspath(config)), os.fspath(config))
    except SettingsError as error:
        raise BadInput(error.lines()) from error


def beside(settings: Settings, file: str) -> Settings:
    """The settings of the file. A file that it names by a relative path that the working directory lacks lies beside it."""
    folder = os.path.dirname(file)

    def path_of(named: str, _: str) -> str:
        return named if os.path.exists(named) else os.path.join(folder, named)

    return _with_paths(settings, path_of)


def _carried(cluster: Cluster, source: str, notes: list[str]) -> Settings:
    """The settings that the dump of a service has in it. The files that they name were on the service's machine: `notes` gets
    those that are not here. Raises `BadInput`."""
    try:
        settings = loads(json.dumps(cluster.configuration), source=f"{source}: configuration")
    except SettingsError as error:
        raise BadInput([*error.lines(), "want a configuration with --config F (in Python config=F) instead"]) from error

    def path_of(named: str, without: str) -> str | None:
        if os.path.exists(named):
            return named
        notes.append(f"{named} is not here: {without}")
        return None

    return _with_paths(settings, path_of)


def _with_paths(settings: Settings, path_of: Callable[[str, str], str | None]) -> Settings:
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


def _version_request(options: Options, settings: Settings) -> VersionRequest:
    """The version and feature gates of kube-scheduler, from the options or else the configuration. Raises `BadInput`."""
    gates, stated = options.get("feature_gates"), options.get("kubernetes_version")
    try:
        read = read_gates(settings.scheduler.feature_gates if gates is None else gates)
    except ValueError as error:
        raise BadInput([str(error)], argument="feature_gates") from error
    if stated is None:
        return VersionRequest(version=settings.scheduler.stated, gates=read)
    try:
        version = KubernetesVersion.parse(stated)
    except ValueError as error:
        raise BadInput([str(error)], argument="kubernetes_version") from error
    if version.minor < OLDEST_MINOR:
        raise BadInput([f"got {version}, want 1.{OLDEST_MINOR} or newer"], argument="kubernetes_version")
    return VersionRequest(version=version, gates=read)
