"""Reads a cluster from a file or from the API server, for commands that work without the service.

- `load_cluster`: JSON as `kubectl -o json` or `slackwater dumpstate -o json` writes it, or YAML, in one or several documents;
  also compressed, and folders (`sources`).
- `fetch_cluster`: the API server, once. It needs the right to list only.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.api_objects import Wire
from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP
from slackwater.adapters.kube.devices import TAINT_RULE_APIS
from slackwater.adapters.kube.errors import StatusError
from slackwater.adapters.kube.objects import ApiObjects, server_version
from slackwater.adapters.kube.resource_type import NODES_PATH, PATHS, PODS_PATH
from slackwater.adapters.kube.yaml_text import YamlProblem, json_documents
from slackwater.app.offline.cluster import KIND_OF, Cluster, read_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.shapes import NESTED_TOO_DEEPLY
from slackwater.app.offline.sources import contents, json_texts
from slackwater.app.offline.version import NO_REQUEST, VersionRequest, find_version
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import cluster_of
from slackwater.model.ids import Instant
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: A file is taken for JSON if its first non-space character is one of these; it is looked for in this many bytes.
_JSON: Final = (b"{", b"[")
_START: Final = 4096


def load_cluster(path: str, *, accounting: bool = False, request: VersionRequest = NO_REQUEST) -> Cluster:
    """Reads and decodes the cluster of a file or folder, or of stdin if `path` is `-`. Raises `ClusterError`.

    `request` is what the user says about the version of Kubernetes. The file may be a dump of a running service. With
    `accounting` its pods take the larger of their requests and Reserved.
    """
    found, silent = list[msgspec.Raw](), list[str]()
    for place, data in contents(path):
        objects = _within(place, data)
        found += objects
        silent += [] if objects else [place]
    if len(found) == 1 and _is_dump(found[0]):
        return load_dump(found[0], accounting=accounting, request=request)
    cluster = read_cluster(*found, request=request, add_missing=True)
    notes = [f"files without an object that says its kind: {len(silent)}, such as {silent[0]}"] if silent else []
    return replace(cluster, unread=(*cluster.unread, *notes))


def documents_of(path: str) -> list[msgspec.Raw]:
    """The documents of a file or folder with objects of the API. Raises `ClusterError`, also for the dump of a service."""
    found = [document for place, data in contents(path) for document in _within(place, data)]
    if len(found) == 1 and _is_dump(found[0]):
        raise ClusterError("the file", "", "a dumpstate has no workloads, want what kubectl writes")
    return found


def _within(place: str, data: bytes) -> list[msgspec.Raw]:
    """The documents of one text; of a folder's file those that say their kind: other programs' files may lie beside them."""
    try:
        found = documents(data, may_be_empty=bool(place))
    except ClusterError as err:
        raise ClusterError(place or err.path, err.name, err.problem) from err
    return [document for document in found if not place or _head(document).kind]


class _Versioned(Wire):
    version: object = None
    kind: object = None


def _head(document: msgspec.Raw) -> _Versioned:
    try:
        return msgspec.json.decode(document, type=_Versioned)
    except msgspec.MsgspecError:
        return _Versioned(version="")  # the decoder of objects says what is wrong


def _is_dump(document: msgspec.Raw) -> bool:
    if not (version := _head(document).version):
        return False
    from slackwater.runtime.dump import FAMILY  # with the state machine, which other files do not need

    return str(version).startswith(FAMILY)


def load_dump(document: msgspec.Raw, *, accounting: bool, request: VersionRequest) -> Cluster:
    """Restores the cluster of a dump. The service computed what pods request, so another version changes only the rules.
    Raises `ClusterError`."""
    from slackwater.app.policies import policy_of
    from slackwater.runtime.change_collector import ChangeCollector
    from slackwater.runtime.restore import DumpUnreadable, restore

    try:
        dumped = msgspec.json.decode(document)
        followed = None  # by the service; the dumps of some do not say
        if isinstance(said := dumped.get("kubernetes"), dict):
            gates = said.get("featureGates")
            followed = KubernetesVersion.parse(str(said.get("version")), gates if isinstance(gates, dict) else {})
        found = find_version(request, (), followed)
        state_machine = restore(dumped, policy_of(Settings(), found.version), Instant(0.0))
    except (DumpUnreadable, RecursionError, ValueError) as err:
        raise ClusterError("the file", "", f"dumpstate that cannot be read: {err}") from err
    replica, ended = SnapshotReplica(), [pod for pod in state_machine.state.pods if pod.ended]
    replica.take(ChangeCollector(state_machine).rest())
    cluster = cluster_of(replica, None, Instant(0.0), accounting=accounting, ended=ended)
    return replace(cluster, kubernetes=found, where="in a dumpstate", configuration=dumped.get("configuration"))


def documents(data: bytes, *, may_be_empty: bool = False) -> list[msgspec.Raw]:
    """The documents of a JSON or YAML file as JSON text, without empty ones. Raises `ClusterError`."""
    json_problem = None
    if data[:_START].lstrip().startswith(_JSON):
        try:
            found = [msgspec.json.decode(data, type=msgspec.Raw)]
            return found if data[:_START].lstrip().startswith(b"{") else json_texts(data)
        except RecursionError as err:
            raise ClusterError("the file", "", NESTED_TOO_DEEPLY) from err
        except ValueError as err:
            json_problem = err
        try:
            return json_texts(data)
        except (RecursionError, ValueError):
            pass  # YAML may begin so too, and what is wrong with the first text is known
    try:
        found = [msgspec.Raw(document) for document in json_documents(data)]
    except YamlProblem as err:
        raise ClusterError("the file", "", f"neither JSON nor YAML: {json_problem or err}") from err
    if not found and not may_be_empty:
        raise ClusterError("the file", "", "it is empty, want a list of objects")
    return found


#: Without these there is nothing to judge. Of the other types of `PATHS`, which rules read in addition, one that may not be
#: listed counts as unknown, and answers say so.
_NEEDED: Final = (NODES_PATH, PODS_PATH)
_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
_MAY_BE_MISSING: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


class RightsLacking(ClusterError):
    """The account may not list nodes or pods, without which there is nothing to judge."""


async def fetch_cluster(
    client: ApiPort,
    report: Callable[[str], None] = lambda _: None,
    *,
    counted: Callable[[int, int], None] = lambda done, total: None,
    request: VersionRequest = NO_REQUEST,
    namespace: str | None = None,
) -> Cluster:
    """Reads the cluster as the API server has it now. `report` is called with a text about what is read next,
    `counted` with how many of its objects have been read and how many there are. `request` is
    what the user says about the version of Kubernetes. `namespace`: nodes need not be listed, and of the pods those of this
    namespace are enough. A type that is not served has no objects. Raises `KubeError`, `ClusterError` and `RightsLacking`."""
    objects, pages = ApiObjects(client), list[msgspec.Raw]()
    absent, forbidden = set[str](), list[str]()
    said = await server_version(client)
    for path in (*PATHS.values(), _CONFIG_MAPS):
        name = path.rpartition("/")[2]
        report(f"reading {name}")
        fields = f"metadata.name={PRIORITIES_CONFIG_MAP}" if path == _CONFIG_MAPS else ""
        try:
            pages += [msgspec.Raw(page) async for page in objects.pages(path, fields=fields, report=counted)]
        except StatusError as error:
            if error.code not in _MAY_BE_MISSING or (path in _NEEDED and error.code != HTTPStatus.FORBIDDEN):
                raise
            (forbidden.append if error.code == HTTPStatus.FORBIDDEN else absent.add)(name)
        if path == _NEEDED[-1] and forbidden and namespace is None:
            raise RightsLacking(
                "the rights", "", f"may not list {' and '.join(forbidden)}, want the verb list on nodes and pods"
            )
    if "pods" in forbidden:
        pages += [msgspec.Raw(page) async for page in objects.pages(f"/api/v1/namespaces/{namespace}/pods")]
    report("reading devicetaintrules")
    more, why = await _device_taint_rules(objects)
    pages += more
    if why is not None:
        (forbidden.append if why is HTTPStatus.FORBIDDEN else absent.add)("devicetaintrules")
    none = frozenset(KIND_OF[name] for name in absent if name in KIND_OF)
    cluster = read_cluster(*pages, request=request, said=said, where="in the cluster", absent=none)
    return _with_forbidden(cluster, forbidden)


def _with_forbidden(cluster: Cluster, forbidden: Sequence[str]) -> Cluster:
    """The cluster with what the account may not list of it, by resource."""
    if not forbidden:
        return cluster
    kinds = {KIND_OF[name]: name for name in forbidden if name in KIND_OF}
    unread = (*cluster.unread, f"{', '.join(forbidden)}: the right to list them is lacking")
    return replace(cluster, forbidden=kinds, unknown=cluster.unknown | (kinds.keys() & {"Node", "Pod"}), unread=unread)


async def _device_taint_rules(objects: ApiObjects) -> tuple[list[msgspec.Raw], HTTPStatus | None]:
    """The pages of DeviceTaintRules in the newest version of the API that serves them; without any, why: FORBIDDEN or
    NOT_FOUND."""
    why = None
    for api in TAINT_RULE_APIS:
        try:
            return [msgspec.Raw(page) async for page in objects.pages(f"/apis/{api}/devicetaintrules")], None
        except StatusError as error:
            if error.code not in _MAY_BE_MISSING:
                raise
            why = HTTPStatus(error.code)
    return [], why
