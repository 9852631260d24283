"""Reads and writes ConfigMaps: the arrival history, pauses, and what Cluster Autoscaler's say: priorities, and its status.

- `ConfigMapWriter`: writes some keys of one ConfigMap. `packed`, `unpacked`: a value as compressed text of a key.
- `ArrivalsStore`: reads and writes the observed arrivals and node start times.
- `pauses`: the ConfigMap that says which activities are paused, as a resource type.
- `decode_priorities`: the priorities of node groups.
- `listed_groups`: the node groups in Cluster Autoscaler's status.
"""

import base64
import zlib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, ApiPort, ApiReads, Response, ask, get
from slackwater.adapters.api_objects import ConfigMapWire, ObjectDecoder
from slackwater.adapters.kube.decode import read_meta, version_number
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, refused
from slackwater.adapters.kube.resource_type import Found, OnBroken, ResourceType
from slackwater.adapters.kube.yaml_text import YamlProblem, yaml_tree
from slackwater.controllers.scaleup.expanders import BadPriorities, Priorities, read_priorities
from slackwater.model.events import PausesSeen
from slackwater.model.pauses import ACTIVITIES, ALL, pauses_of, unknown_keys
from slackwater.model.selectors import whole_number
from slackwater_protocol.names import PAUSE_CONFIG_MAP, SCHEDULER_NAMESPACE

T = TypeVar("T")


_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_OK: Final = 200
_CREATED: Final = frozenset({200, 201})
_READ_SECONDS: Final = 5.0
_WRITE_SECONDS: Final = 10.0
_CONFIG_MAP: Final = ObjectDecoder(ConfigMapWire)


#: Limit of the unpacked text: whatever others write into the ConfigMap must not exhaust our memory.
_MOST_BYTES: Final = 32 * 2**20


class BadPacked(ValueError):
    """The text is not what `packed` returns."""


def packed(value: object) -> str:
    """The value as compressed JSON in base64."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(value), 9)).decode("ascii")


def unpacked(text: str, of: type[T], *, most_bytes: int = _MOST_BYTES) -> T:
    """Unpacks what `packed` has made of a value of this type. Raises BadPacked, also for more than `most_bytes` unpacked."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(text, validate=True), most_bytes)
        if unpacker.unconsumed_tail:
            raise BadPacked(f"more than {most_bytes} bytes unpacked")
        return msgspec.json.decode(raw, type=of)
    except (*UNREADABLE, zlib.error) as error:
        raise BadPacked(str(error)) from error


class ConfigMapWriter:
    """Writes its own keys of one ConfigMap and keeps all others. Never raises, because no decision depends on the write.

    It creates the ConfigMap if it does not exist, otherwise changes it by merge patches. Each patch names the resource version
    that was seen last, so that a late write of a former leader does not overwrite what its successor wrote. After a conflict
    the object is read and the patch is sent once more.
    """

    def __init__(self, client: ApiPort, *, namespace: str, name: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._namespace, self._name = namespace, name
        self._failing = False
        #: The resource version as last read or written; "" if unknown.
        self._version = ""

    async def write(self, data: dict[str, str], annotations: dict[str, str]) -> bool:
        """Writes data and annotations; true if that succeeded. A failure is logged once, until a write succeeds again."""
        try:
            status, words = await self._put(data, annotations)
        except KubeError as error:
            status, words = 0, str(error)
        done = status in _CREATED
        if not done and not self._failing:
            import structlog  # commands that read a file log nothing, and it takes 0.1 s

            name = f"{self._namespace}/{self._name}"
            _log = structlog.get_logger(__name__)
            _log.warning("status object not written", config_map=name, status=status, detail=words)
        self._failing = not done
        return done

    async def _put(self, data: dict[str, str], annotations: dict[str, str]) -> tuple[int, str]:
        answer = await self._patched(data, annotations)
        if answer.status == _CONFLICT:
            self._version = ""
            answer = await self._patched(data, annotations)
        if answer.status == _NOT_FOUND:
            metadata = {"name": self._name, "namespace": self._namespace, "annotations": annotations}
            new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            answer = await ask(self._client, "POST", self._path, new, timeout_seconds=_WRITE_SECONDS)
        self._version = _version(answer) if answer.status in _CREATED else ""
        return answer.status, answer.body[:300].decode(errors="replace")

    async def _patched(self, data: dict[str, str], annotations: dict[str, str]) -> Response:
        path = f"{self._path}/{self._name}"
        if not self._version:
            found = await get(self._client, path, timeout_seconds=_WRITE_SECONDS)
            if found.status not in _CREATED:
                return found
            self._version = _version(found)
        patch = {"metadata": {"resourceVersion": self._version, "annotations": annotations}, "data": data}
        return await ask(self._client, "PATCH", path, patch, content_type=MERGE_PATCH, timeout_seconds=_WRITE_SECONDS)


def _version(answer: Response) -> str:
    try:
        return read_meta(answer.body).resource_version
    except msgspec.MsgspecError:
        return ""


async def read_config_map(client: ApiReads, path: str) -> dict[str, str] | None:
    """The data of a ConfigMap; None if there is none. Raises KubeError, and msgspec.DecodeError for what is no ConfigMap."""
    answer = await get(client, path, timeout_seconds=_READ_SECONDS)
    if answer.status == _NOT_FOUND:
        return None
    if answer.status != _OK:
        raise refused(f"get {path}", answer)
    return _CONFIG_MAP.decode(answer.body).data or {}


ARRIVALS_CONFIG_MAP: Final = "slackwater-arrivals"
_KEY: Final = "observed"


class BadArrivals(ValueError):
    """The ConfigMap exists, but does not contain what we write."""


class ArrivalsStore:
    """Reads and writes the arrivals ConfigMap of one namespace: compressed JSON, the text of one key.

    Eight days of arrivals of one class of pods take about 10 kB in this form. A ConfigMap holds 1 MiB.
    """

    def __init__(self, client: ApiPort, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{ARRIVALS_CONFIG_MAP}"
        self._writer = ConfigMapWriter(client, namespace=namespace, name=ARRIVALS_CONFIG_MAP)

    async def read(self) -> dict[str, Any] | None:
        """The stored observations; None if there are none yet. Raises KubeError and BadArrivals."""
        try:
            text = (await read_config_map(self._client, self._path) or {}).get(_KEY)
            return None if text is None else unpacked(text, dict[str, Any])
        except (msgspec.DecodeError, BadPacked) as error:
            raise BadArrivals(f"ConfigMap {ARRIVALS_CONFIG_MAP}: {error}") from error

    async def write(self, observed: Mapping[str, Any]) -> bool:
        """Writes the observations; true if that succeeded. A failure is logged."""
        return await self._writer.write({_KEY: packed(observed)}, {})


def pauses(on_broken: OnBroken) -> ResourceType[str]:
    """The resource type of pauses: one ConfigMap, whose keys name the paused activities.

    If the ConfigMap does not exist, nothing is paused. A key that names no activity is reported to `on_broken` and ignored.
    """

    def decode(raw: bytes | msgspec.Raw) -> Found[str]:
        meta, data = read_meta(raw), _CONFIG_MAP.decode(raw).data or {}
        for key in unknown_keys(data):
            problem = ValueError(f"got key {key[:60]!r}, want one of {', '.join((*ACTIVITIES, ALL))}; nothing is paused by it")
            on_broken("configmaps", f"{meta.namespace}/{meta.name}", problem)
        return Found(meta.name, meta.uid, version_number(meta.resource_version), PausesSeen(pauses_of(data)))

    return ResourceType(
        name="pauses",
        path=f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps",
        decode=decode,
        key_of=lambda _, name: name,
        gone=lambda _, __: PausesSeen(()),
        on_broken=on_broken,
        field_selector=f"metadata.name={PAUSE_CONFIG_MAP}",
    )


PRIORITIES_CONFIG_MAP: Final = "cluster-autoscaler-priority-expander"
_RANKING: Final = "priorities"
#: Limit of the priorities' text, which is parsed on the event loop. Usual texts have some hundred characters.
_LONGEST: Final = 64 << 10


def decode_priorities(raw: bytes | msgspec.Raw) -> Priorities:
    """The priorities in the ConfigMap's JSON. Raises BadPriorities."""
    try:
        data = _CONFIG_MAP.decode(raw).data or {}
    except UNREADABLE as err:
        raise BadPriorities(f"ConfigMap {PRIORITIES_CONFIG_MAP}: {err}") from err
    if _RANKING not in data:
        raise BadPriorities(f"ConfigMap {PRIORITIES_CONFIG_MAP}: got no key {_RANKING}, want one")
    if len(data[_RANKING]) > _LONGEST:
        raise BadPriorities(
            f"ConfigMap {PRIORITIES_CONFIG_MAP}: {_RANKING} has {len(data[_RANKING])} characters, want at most {_LONGEST}"
        )
    try:
        document = yaml_tree(data[_RANKING])
    except YamlProblem as err:
        raise BadPriorities(f"ConfigMap {PRIORITIES_CONFIG_MAP}: {_RANKING} is no YAML: {err}") from err
    if isinstance(document, dict):  # keys that are not whole numbers stay as they are
        document = {key if (number := whole_number(key)) is None else number: value for key, value in document.items()}
    return read_priorities(document)


_WANTED_STATUS: Final = "want the format of Cluster Autoscaler 1.30 and later"


class BadStatus(ValueError):
    """The text is not a status as Cluster Autoscaler writes it, from version 1.30 on."""


def listed_groups(status: str) -> frozenset[str]:
    """The names of the node groups in Cluster Autoscaler's status, the text of key `status`. Raises BadStatus.

    A ConfigMap is smaller than 1 MiB, so the result has a bound too. It takes about 0.15 s for a thousand groups."""
    try:
        tree = yaml_tree(status)
    except (YamlProblem, *UNREADABLE) as err:
        raise BadStatus(f"it is not YAML, {_WANTED_STATUS}: {str(err)[:200]}") from err
    groups = tree.get("nodeGroups") if isinstance(tree, dict) else None
    if groups is None and isinstance(tree, dict) and "clusterWide" in tree:
        return frozenset()  # it has no group yet
    if not isinstance(groups, list) or not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in groups):
        raise BadStatus(f"got no list nodeGroups of items with a name, {_WANTED_STATUS}")
    return frozenset(each["name"] for each in groups)
