"""Reads, writes and watches one Lease of the API server, and finds the Pod of the leading replica.

- `ApiLease`: implements `controllers.leadership.lease.LeaseStore`.
- `LeaderPod`: the leader's address.

Who may take the Lease, and when, is decided in `controllers.leadership`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec
import structlog

from slackwater.adapters.api_calls import ApiPort, Response, ask, get
from slackwater.adapters.api_objects import ObjectDecoder, ObjectMetaWire, Wire
from slackwater.adapters.kube.errors import KubeError, refused
from slackwater.adapters.kube.resource_type import PODS_PATH, object_path
from slackwater.controllers.leadership.lease import Lease, LeaseUnreachable, holder_name
from slackwater.model.ids import Instant, PodKey
from slackwater.ports.clock import Clock

_GROUP: Final = "coordination.k8s.io/v1"
_WRITTEN: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})
#: The server ends a watch after `_WATCH_SECONDS`. It is never silent for `_SILENCE_SECONDS`, because the holder renews the
#: Lease.
_WATCH_SECONDS: Final = 300
_SILENCE_SECONDS: Final = 330.0


class _LeaseSpecWire(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _LeaseWire(Wire):
    metadata: ObjectMetaWire
    spec: _LeaseSpecWire = msgspec.field(default_factory=_LeaseSpecWire)


_LEASE: Final = ObjectDecoder(_LeaseWire)


class ApiLease:
    """The Lease `namespace`/`name`. Reads name no resource version, so the API server answers them from etcd and not from its
    cache.

    A write creates the Lease, or replaces it only if it still has the version that was read.
    """

    def __init__(self, client: ApiPort, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace, self._name = namespace, name
        self._collection = f"/apis/{_GROUP}/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"

    async def read(self, *, timeout_seconds: float) -> Lease | None:
        answer = await self._ask("GET", self._path, None, timeout_seconds)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        return self._read(answer) if answer.status == HTTPStatus.OK else self._refused("GET", answer)

    async def write(self, lease: Lease, *, timeout_seconds: float) -> Lease | None:
        method, path = ("PUT", self._path) if lease.version else ("POST", self._collection)
        answer = await self._ask(method, path, self._body(lease), timeout_seconds)
        if answer.status == HTTPStatus.CONFLICT or (answer.status == HTTPStatus.NOT_FOUND and lease.version):
            return None
        return self._read(answer) if answer.status in _WRITTEN else self._refused(method, answer)

    async def changes(self) -> AsyncGenerator[None, None]:
        params = {"watch": "1", "fieldSelector": f"metadata.name={self._name}", "timeoutSeconds": str(_WATCH_SECONDS)}
        try:
            async with aclosing(
                self._client.stream(self._collection, params=params, silence_seconds=_SILENCE_SECONDS)
            ) as arriving:
                async for _ in arriving:
                    yield
        except KubeError as error:
            raise LeaseUnreachable(f"lease {self}: {error}") from error

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _ask(self, method: str, path: str, body: object, seconds: float) -> Response:
        try:
            # The pool of event sources, so that the Lease is renewed even while writes use all connections of the other pool.
            return await ask(self._client, method, path, body, timeout_seconds=seconds, pool="event_sources")
        except KubeError as error:
            raise LeaseUnreachable(f"lease {self}: {error}") from error

    def _refused(self, method: str, answer: Response) -> Lease:
        problem = refused(f"{method} lease {self}", answer)
        raise LeaseUnreachable(str(problem)) from problem

    def _read(self, answer: Response) -> Lease:
        try:
            found = _LEASE.decode(answer.body)
        except msgspec.MsgspecError as error:
            raise LeaseUnreachable(f"lease {self}: cannot be read: {error}") from error
        spec = found.spec
        return Lease(
            holder=spec.holder_identity or "",
            seconds=spec.lease_duration_seconds or 0,
            renewed=spec.renew_time or "",
            acquired=spec.acquire_time or "",
            transitions=spec.lease_transitions or 0,
            version=found.metadata.resource_version,
        )

    def _body(self, lease: Lease) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.seconds,
            "renewTime": lease.renewed,
            "leaseTransitions": lease.transitions,
        }
        if lease.acquired:
            spec["acquireTime"] = lease.acquired
        metadata = {"name": self._name, "namespace": self._namespace}
        if lease.version:
            metadata["resourceVersion"] = lease.version
        return {"apiVersion": _GROUP, "kind": "Lease", "metadata": metadata, "spec": spec}


_log = structlog.get_logger(__name__)

_READ_SECONDS: Final = 2.0
#: How long an address is used before it is read again; a missing one is read sooner. The Pod may have come back elsewhere under
#: its name.
_KEEP_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0


class _AddressWire(Wire):
    pod_ip: str = msgspec.field(name="podIP", default="")


class _PodAddressWire(Wire):
    status: _AddressWire = msgspec.field(default_factory=_AddressWire)


_POD: Final = ObjectDecoder(_PodAddressWire)


class LeaderPod:
    """Finds the Pod of the leading replica in `namespace`: its address, read once for each leader and again at intervals.

    `holder` returns the identity of the leader, "" if no replica leads.
    """

    def __init__(self, client: ApiPort, *, namespace: str, holder: Callable[[], str], clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._holder = holder
        self._clock = clock
        self._known: tuple[str, str] | None = None
        self._good_until = Instant(float("-inf"))

    async def __call__(self) -> tuple[str, str] | None:
        """The leader's name and address; None if nobody leads or its Pod has no address. Never raises."""
        holder = self._holder()
        if not holder:
            return None
        name = holder_name(holder)
        if self._known is None or self._known[0] != name or self._good_until <= self._clock():
            # Set before the answer comes, so that concurrent callers cause one request; the others get the last known address.
            self._good_until = Instant(self._clock() + _AGAIN_SECONDS)
            address = await self._address(name)
            self._known = name, address
            self._good_until = Instant(self._clock() + (_KEEP_SECONDS if address else _AGAIN_SECONDS))
        return self._known if self._known[1] else None

    async def _address(self, name: str) -> str:
        path = object_path(PODS_PATH, PodKey(self._namespace, name))
        try:
            answer = await get(self._client, path, timeout_seconds=_READ_SECONDS)
            if answer.status == HTTPStatus.OK:
                return _POD.decode(answer.body).status.pod_ip
            problem = f"status {answer.status}"
        except (KubeError, msgspec.MsgspecError) as error:
            problem = str(error)
        _log.warning("the leader's pod cannot be read", pod=f"{self._namespace}/{name}", problem=problem)
        return ""
