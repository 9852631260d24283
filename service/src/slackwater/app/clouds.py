"""Builds the node providers from the settings, with the background tasks that they need.

In: the `autoscaler` section. Out: objects that implement `ports.protocols.NodeProvider` (`open_clouds`) or, for a shadow,
`GroupReader` alone (`open_readers`). Only this module connects providers to the client of the API server. Nothing here calls a
provider's operations.
"""

import importlib.util
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict

import structlog

from slackwater.adapters.api_calls import ApiPort, ApiReader, ApiReads
from slackwater.adapters.cloud.clusterapi.provider import ClusterApiGroups, ClusterApiProvider, GroupSelection
from slackwater.adapters.cloud.configured import ConfiguredGroups, ConfiguredProvider, Entry
from slackwater.adapters.cloud.karpenter.instance_types import InstanceTypes, Offering, read_instance_types
from slackwater.adapters.cloud.karpenter.provider import KarpenterGroups, KarpenterProvider
from slackwater.adapters.cloud.kwok.nodes import KwokGroup, SimulatedFailures
from slackwater.adapters.cloud.kwok.provider import KwokGroups, KwokProvider
from slackwater.adapters.kube.client import LedApi, open_client, open_reader
from slackwater.app.node_templates import node_body, template_node
from slackwater.app.prices import has_prices
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import Aws, ClusterApi, ExternalGrpc, Karpenter, ProviderName, Template
from slackwater.model.nodegroups import GroupName, GroupOptions, MachineWarning
from slackwater.ports.clock import unix_time
from slackwater.ports.protocols import GroupReader, NodeProvider, ProviderError
from slackwater_protocol.durations import SECOND

if TYPE_CHECKING:
    from slackwater.adapters.cloud.aws.client import AwsClient
    from slackwater.adapters.cloud.externalgrpc.client import Client


_log = structlog.get_logger(__name__)


class CloudError(Exception):
    """A provider cannot be built from the settings. The message names the key and the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clouds:
    """The node providers and their background tasks by name. The user of the providers starts each task; a task runs until it
    is cancelled."""

    providers: Sequence[NodeProvider]
    tasks: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


@asynccontextmanager
async def open_clouds(
    settings: Settings,
    client: ApiPort,
    *,
    now: Callable[[], float] = unix_time,
    leads: Callable[[], bool] = lambda: True,
    on_warning: Callable[[MachineWarning], bool] = lambda _: True,
) -> AsyncIterator[Clouds]:
    """Opens the providers that the settings name, and closes them at the end. Calls none of their operations.

    `client` is the client of the served cluster. A management cluster of Cluster API gets its own client, which writes only
    while `leads` returns true. `now` is the Unix time in seconds. `on_warning` takes warnings that machines will stop; False if
    one should come again.

    :raises CloudError: a TLS file or the file of instance types cannot be read, or no region of AWS is known.
    :raises KubeConfigError: the management cluster's kubeconfig is invalid.
    """
    providers: list[NodeProvider] = []
    tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
    async with AsyncExitStack() as stack:
        if uses_kwok(settings):
            kwok = KwokProvider(client, _kwok_groups(settings), now=now, **_kwok(settings))
            providers.append(kwok)
            tasks["kwok arrivals"] = kwok.arrivals.run
        if uses_clusterapi(settings):
            clusterapi = await _clusterapi(stack, settings, client, now, leads)
            providers.append(ConfiguredProvider(clusterapi, _entries(settings, "clusterapi")))
        if uses_karpenter(settings):
            pools = _section(settings).node_pools
            karpenter = KarpenterProvider(client, _offerings(settings), wanted=pools)
            providers.append(ConfiguredProvider(karpenter, _entries(settings, "karpenter")))
        if (external := settings.autoscaler.providers.externalgrpc) is not None:
            from slackwater.adapters.cloud.externalgrpc.provider import ExternalGrpcProvider

            provider = ExternalGrpcProvider(await _externalgrpc(stack, external), **_asked_of_externalgrpc(settings, now))
            providers.append(ConfiguredProvider(provider, _entries(settings, "externalgrpc")))
        if uses_aws(settings):
            aws, of_aws = _aws_provider(settings, await _aws(stack, settings), now, leads, on_warning)
            providers.append(ConfiguredProvider(aws, _entries(settings, "aws")))
            tasks |= of_aws
        yield Clouds(providers=tuple(providers), tasks=tasks)


@asynccontextmanager
async def open_readers(
    settings: Settings, client: ApiReader, *, now: Callable[[], float]
) -> AsyncIterator[Sequence[GroupReader]]:
    """Opens what reads the node groups that `open_clouds` opens, and can change nothing; raises as that does."""
    readers: list[GroupReader] = []
    async with AsyncExitStack() as stack:
        if uses_kwok(settings):
            readers.append(KwokGroups(client, _kwok_groups(settings), now=now, **_kwok(settings)))
        if uses_karpenter(settings):
            readers.append(karpenter_groups(settings, client, _offerings(settings)))
        if uses_clusterapi(settings):
            section = settings.autoscaler.providers.clusterapi or ClusterApi()
            if section.kubeconfig is not None:
                client = await stack.enter_async_context(open_reader(kubeconfig=section.kubeconfig))
            readers.append(cluster_api_groups(settings, client))
        if (external := settings.autoscaler.providers.externalgrpc) is not None:
            from slackwater.adapters.cloud.externalgrpc.provider import ExternalGrpcGroups

            groups = ExternalGrpcGroups(await _externalgrpc(stack, external), **_asked_of_externalgrpc(settings, now))
            readers.append(ConfiguredGroups(groups, _entries(settings, "externalgrpc")))
        if uses_aws(settings):
            from slackwater.adapters.cloud.aws.provider import AwsGroups

            reader = AwsGroups(await _aws(stack, settings), **_aws_groups(settings, now))
            readers.append(ConfiguredGroups(reader, _entries(settings, "aws")))
        yield tuple(readers)


def cluster_api_groups(settings: Settings, client: ApiReads) -> GroupReader:
    """What reads Cluster API's groups from `client`, the one of its management cluster."""
    section = settings.autoscaler.providers.clusterapi or ClusterApi()
    return ConfiguredGroups(ClusterApiGroups(client, _selection(section)), _entries(settings, "clusterapi"))


class _Kwok(TypedDict):
    seed: int
    namespace: str


def _kwok(settings: Settings) -> _Kwok:
    section = settings.autoscaler.providers.kwok
    return _Kwok(seed=section.seed, namespace=section.namespace)


def uses_kwok(settings: Settings) -> bool:
    """True if a node group uses the provider kwok."""
    return any(group.provider == "kwok" for group in settings.autoscaler.node_groups)


def uses_clusterapi(settings: Settings) -> bool:
    """True if a node group uses the provider clusterapi, or the provider's section is present."""
    named = any(group.provider == "clusterapi" for group in settings.autoscaler.node_groups)
    return named or settings.autoscaler.providers.clusterapi is not None


def uses_karpenter(settings: Settings) -> bool:
    """True if a node group uses the provider karpenter, or the provider's section is present."""
    named = any(group.provider == "karpenter" for group in settings.autoscaler.node_groups)
    return named or settings.autoscaler.providers.karpenter is not None


def karpenter_groups(settings: Settings, client: ApiReads, offerings: Iterable[Offering]) -> GroupReader:
    """What reads NodePools as groups. `offerings`: what may be launched beside what NodeClaims show."""
    groups = KarpenterGroups(client, offerings, wanted=_section(settings).node_pools)
    return ConfiguredGroups(groups, _entries(settings, "karpenter"))


def _section(settings: Settings) -> Karpenter:
    return settings.autoscaler.providers.karpenter or Karpenter()


def _offerings(settings: Settings) -> tuple[Offering, ...]:
    path = _section(settings).instance_types
    try:
        found = InstanceTypes((), ()) if path is None else read_instance_types(path)
    except ValueError as error:
        raise CloudError(f"autoscaler.providers.karpenter.instanceTypes: {error}") from error
    for problem in found.problems:
        _log.warning("an instance type is left out", problem=problem)
    return found.offerings


async def _clusterapi(
    stack: AsyncExitStack, settings: Settings, client: ApiPort, now: Callable[[], float], leads: Callable[[], bool]
) -> NodeProvider:
    section = settings.autoscaler.providers.clusterapi or ClusterApi()
    if section.kubeconfig is not None:
        client = LedApi(await stack.enter_async_context(open_client(kubeconfig=section.kubeconfig)), leads)
    return ClusterApiProvider(client, _selection(section), stamp=lambda: datetime.fromtimestamp(now(), UTC).isoformat())


def _selection(section: ClusterApi) -> GroupSelection:
    return GroupSelection(namespace=section.namespace, cluster_name=section.cluster_name, labels=section.selector)


def uses_aws(settings: Settings) -> bool:
    """True if a node group uses the provider aws, or the provider's section is present."""
    named = any(group.provider == "aws" for group in settings.autoscaler.node_groups)
    return named or settings.autoscaler.providers.aws is not None


class _AwsGroups(TypedDict):
    tags: Mapping[str, str]
    names: frozenset[GroupName]
    now: Callable[[], float]


def _aws_provider(
    settings: Settings,
    client: "AwsClient",
    now: Callable[[], float],
    leads: Callable[[], bool],
    on_warning: Callable[[MachineWarning], bool],
) -> tuple[NodeProvider, Mapping[str, Callable[[], Coroutine[Any, Any, None]]]]:
    """The provider aws, and the task that reads its queue of warnings if there is one."""
    from slackwater.adapters.cloud.aws.interruptions import InterruptionQueue
    from slackwater.adapters.cloud.aws.provider import AwsProvider

    provider = AwsProvider(client, **_aws_groups(settings, now))
    if (url := (settings.autoscaler.providers.aws or Aws()).interruption_queue) is None:
        return provider, {}

    def reads() -> bool:  # a warning about a machine that is not listed yet would be taken for another's
        return leads() and provider.knows_machines

    queue = InterruptionQueue(client, url, name_of=provider.name_of, take=on_warning, reads=reads, now=now)
    return provider, {"aws interruptions": queue.run}


def _aws_groups(settings: Settings, now: Callable[[], float]) -> _AwsGroups:
    section = settings.autoscaler.providers.aws or Aws()
    return _AwsGroups(tags=section.tags, names=frozenset(entry.id for entry in _entries(settings, "aws")), now=now)


async def _aws(stack: AsyncExitStack, settings: Settings) -> "AwsClient":
    from slackwater.adapters.cloud.aws.client import open_client as open_aws

    section = settings.autoscaler.providers.aws or Aws()
    opening = open_aws(region=section.region, queue=section.interruption_queue is not None)
    try:
        return await stack.enter_async_context(opening)
    except ProviderError as error:
        raise CloudError(f"autoscaler.providers.aws: {error.detail}") from error


def missing_extra(settings: Settings) -> str | None:
    """A message naming the Python modules that a configured provider needs and that are not installed; None if all are
    installed. Call this before the service starts anything."""
    uses_externalgrpc = settings.autoscaler.providers.externalgrpc is not None
    for name, is_used, modules in (
        ("externalgrpc", uses_externalgrpc, ("grpc", "google.protobuf")),
        ("aws", uses_aws(settings), ("aiobotocore", "botocore")),
    ):
        missing = [module for module in modules if not _is_installed(module)]
        if settings.autoscaler.enabled and is_used and missing:
            wanted = f"want the extra: pip install 'slackwater[{name}]'"
            return f"autoscaler.providers.{name}: got no module {' and no '.join(missing)}, {wanted}"
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # find_spec raises if the parent package is missing
        return False


async def _externalgrpc(stack: AsyncExitStack, section: ExternalGrpc) -> "Client":
    from slackwater.adapters.cloud.externalgrpc.client import Tls, open_client

    tls = None
    if (said := section.tls) is not None:
        tls = Tls(ca_file=said.ca_file, cert_file=said.cert_file, key_file=said.key_file, server_name=said.server_name)
    opening = open_client(str(section.address), timeout_seconds=section.timeout / SECOND, tls=tls)
    try:
        return await stack.enter_async_context(opening)
    except OSError as error:
        raise CloudError(f"autoscaler.providers.externalgrpc.tls: {error}") from error


class _AskedOfExternalGrpc(TypedDict):
    defaults: GroupOptions
    now: Callable[[], float] | None


def _asked_of_externalgrpc(settings: Settings, now: Callable[[], float]) -> _AskedOfExternalGrpc:
    rules = settings.autoscaler.scale_down
    defaults = GroupOptions(
        utilization_threshold=rules.utilization_threshold,
        gpu_utilization_threshold=rules.utilization_threshold,
        unneeded_time=rules.unneeded_time / SECOND,
        unready_time=rules.unready_time / SECOND,
    )
    return _AskedOfExternalGrpc(defaults=defaults, now=now if has_prices(settings) else None)


def _entries(settings: Settings, provider: ProviderName) -> Iterator[Entry]:
    for group in settings.autoscaler.node_groups:
        if group.provider == provider:
            said = group.template != Template()
            yield Entry(
                id=GroupName(group.id or group.name),
                name=GroupName(group.name),
                min_size=group.min_size,
                max_size=group.max_size,
                template=template_node(group.name, group.template) if said else None,
            )


def _kwok_groups(settings: Settings) -> Iterator[KwokGroup]:
    for group in settings.autoscaler.node_groups:
        if group.provider == "kwok":
            body, said = node_body(group.template), group.kwok
            yield KwokGroup(
                name=GroupName(group.name),
                min_size=group.min_size,
                max_size=group.max_size,
                template=template_node(group.name, group.template),
                body=body,
                simulated_failures=SimulatedFailures(
                    appear_seconds=said.appear_after / SECOND,
                    appear_spread_seconds=said.appear_spread / SECOND,
                    boot_seconds=said.boot_after / SECOND,
                    failing=said.failing,
                    silent=said.silent,
                    stock=said.stock,
                ),
            )
