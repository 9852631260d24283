"""What pods use, beside what they request: read from Prometheus, or from the metrics API of the cluster.

Prometheus is asked for the 95th percentile of each pod's CPU and memory over 24 h. The metrics API has one moment only, and
says so in `source`. In: an address, or a client. Out: a `Use`, or `UseUnknown` with what was wrong. Requests have a time limit,
and answers a limit on their size. TLS is always verified, redirects and proxies are not followed, and a token is sent over TLS
or to this host.
"""

import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube import metrics_api
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.model.ids import PodKey

if TYPE_CHECKING:
    import httpx

SECONDS: Final = 60.0
MOST_BYTES: Final = 64 << 20
#: Not the containers that stand for a pod or for a cgroup above it.
_OF: Final = '{container!="",container!="POD"}'
#: The percentile, the hours that it is taken over, and the minutes of each rate of CPU.
PERCENT: Final = 95
HOURS: Final = 24
RATE_MINUTES: Final = 5
_OVER: Final = f"[{HOURS}h:{RATE_MINUTES}m]"
_RATE: Final = f"rate(container_cpu_usage_seconds_total{_OF}[{RATE_MINUTES}m])"
_CPU: Final = f"quantile_over_time({PERCENT / 100}, sum by (namespace, pod) ({_RATE}){_OVER})"
_SIZE: Final = f"container_memory_working_set_bytes{_OF}"
_MEMORY: Final = f"quantile_over_time({PERCENT / 100}, sum by (namespace, pod) ({_SIZE}){_OVER})"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_TEXT: Final = 200


class UseUnknown(Exception):
    """What pods use could not be read; the text says why."""


class PodUse(NamedTuple):
    """What one pod uses: milliCPU, and bytes of memory."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class Use:
    """What pods use. `source`: of what time and from where, for people."""

    source: str
    pods: Mapping[PodKey, PodUse]


class _Labels(msgspec.Struct):
    namespace: str = ""
    pod: str = ""


class _Sample(msgspec.Struct):
    metric: _Labels
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: Literal["vector"]
    result: list[_Sample]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


def from_prometheus(
    url: str, *, token: str = "", ca_file: str | None = None, transport: "httpx.BaseTransport | None" = None
) -> Use:
    """Asks Prometheus at `url`, which may have a path. Raises `UseUnknown`."""
    import httpx  # with all that it brings, which other reports do without

    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as err:
        raise UseUnknown(f"{url}: {err}") from err
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.username is not None:
        may_have_secret = parts.query or parts.username is not None
        seen = f"{parts.scheme}://{host or ''}" if may_have_secret else url
        raise UseUnknown(f"got {seen!r}, want http:// or https://, a host, and perhaps a port and a path")
    if token and parts.scheme == "http" and host not in _LOOPBACK:
        raise UseUnknown(f"{url}: a token is sent over https only, or to this host")
    try:
        trust = ssl.create_default_context(cafile=ca_file)
    except OSError as err:
        raise UseUnknown(f"{ca_file}: {err.strerror or err}") from err
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(verify=trust, timeout=SECONDS, headers=headers, transport=transport, trust_env=False) as client:
        cpu, memory = (dict(_asked(client, url.rstrip("/"), query)) for query in (_CPU, _MEMORY))
    both = cpu.keys() | memory.keys()
    pods = {key: PodUse(round(1000 * cpu.get(key, 0.0)), round(memory.get(key, 0.0))) for key in both}
    return Use(f"{PERCENT}th percentile of each pod over {HOURS} h, by Prometheus at {parts.scheme}://{parts.netloc}", pods)


def _asked(client: "httpx.Client", url: str, query: str) -> Iterator[tuple[PodKey, float]]:
    import httpx

    try:
        with client.stream("GET", f"{url}/api/v1/query", params={"query": query, "timeout": f"{SECONDS:.0f}s"}) as reply:
            body = _limited(reply)
    except httpx.TimeoutException as err:
        raise UseUnknown(f"{url}: no answer within {SECONDS:.0f} s") from err
    except httpx.HTTPError as err:
        raise UseUnknown(f"{url}: {err}") from err
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.MsgspecError as err:
        text = body[:_MOST_TEXT].decode(errors="replace")
        raise UseUnknown(f"{url}: status {reply.status_code}, want an answer of Prometheus' API: {err}: {text!r}") from err
    if answer.status != "success" or answer.data is None or reply.status_code != httpx.codes.OK:
        raise UseUnknown(f"{url}: status {reply.status_code}: {answer.error[:_MOST_TEXT] or answer.status}")
    for sample in answer.data.result:
        value = _number(sample.value[1])
        if value is not None and sample.metric.pod:
            yield PodKey(sample.metric.namespace, sample.metric.pod), value


def _limited(reply: "httpx.Response") -> bytes:
    body, ends = bytearray(), time.monotonic() + SECONDS
    for part in reply.iter_bytes():
        body += part
        if len(body) > MOST_BYTES:
            raise UseUnknown(f"{reply.url.host}: the answer has more than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > ends:
            raise UseUnknown(f"{reply.url.host}: the answer was not complete within {SECONDS:.0f} s")
    return bytes(body)


def _number(text: str) -> float | None:
    """None for what is no finite amount, such as NaN."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 2**60 else None


async def from_metrics_api(client: ApiPort) -> Use:
    """Asks the cluster's metrics API. Raises `UseUnknown`, for example where none is served."""
    pods: dict[PodKey, PodUse] = {}
    try:
        async for page in ApiObjects(client).pages(metrics_api.PODS):
            for pod, used in metrics_api.used_of(page):
                pods[PodKey(pod.namespace, pod.name)] = PodUse(*used)
    except (KubeError, msgspec.MsgspecError, ValueError) as err:
        raise UseUnknown(f"metrics API: {err}") from err
    return Use("at one moment, by the cluster's metrics API: not a percentile", pods)
