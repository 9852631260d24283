"""Providers of node groups from the settings: who creates and deletes nodes, and what has to run beside them.

Flows through: the `autoscaler` section -> objects that implement `run.ports.NodeProvider`. The only place where they meet the
client of the API server. Deliberately absent: when they are asked for anything.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import NodeGroup, Template
from slackwater.app.settings.values import quantity_text
from slackwater.edge.cloud.apiserver import NO_PARAMS, Answer, NotSent, Unanswered
from slackwater.edge.cloud.kwok.fates import Weather
from slackwater.edge.cloud.kwok.nodes import KwokGroup
from slackwater.edge.cloud.kwok.provider import KwokProvider
from slackwater.edge.kube.client import KubeClient
from slackwater.edge.kube.decode import NodeDecoder
from slackwater.edge.kube.errors import KubeConfigError, NoAnswer, Unreachable
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.run.ports import NodeProvider
from slackwater_protocol.durations import SECOND
from slackwater_protocol.units import Nanos


@dataclass(frozen=True, slots=True, kw_only=True)
class Clouds:
    """`tasks` run until cancelled, as children of whoever uses the providers; each with its name."""

    providers: Sequence[NodeProvider]
    tasks: Mapping[str, Callable[[], Awaitable[None]]]


class KubeApi:
    """`edge.cloud.apiserver.ApiServer` by a client of `edge.kube`."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] = NO_PARAMS,
        body: object = None,
        content_type: str = "application/json",
    ) -> Answer:
        raw = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._client.request(
                method, path, timeout_seconds=None, params=params, body=raw, content_type=content_type
            )
        except NoAnswer as error:
            raise Unanswered(str(error)) from error
        except (Unreachable, KubeConfigError) as error:
            raise NotSent(str(error)) from error
        return Answer(answer.status, answer.body)


def _unix_time() -> float:
    """By the clock on the wall: what is kept in the cluster outlives the process."""
    return time.clock_gettime(time.CLOCK_REALTIME)


@asynccontextmanager
async def open_clouds(
    settings: Settings, client: KubeClient, *, now: Callable[[], float] = _unix_time
) -> AsyncIterator[Clouds]:
    """The providers that the settings name, connected; `client` is the served cluster's. Does not ask anything yet."""
    providers: list[NodeProvider] = []
    tasks: dict[str, Callable[[], Awaitable[None]]] = {}
    async with AsyncExitStack():
        if groups := tuple(_kwok_groups(settings)):
            section = settings.autoscaler.providers.kwok
            kwok = KwokProvider(KubeApi(client), groups, now=now, seed=section.seed, namespace=section.namespace)
            providers.append(kwok)
            tasks["kwok arrivals"] = kwok.arrivals.run
        yield Clouds(providers=tuple(providers), tasks=tasks)


def _kwok_groups(settings: Settings) -> Iterator[KwokGroup]:
    for group in settings.autoscaler.node_groups:
        if group.provider == "kwok":
            body = node_body(group.template)
            yield KwokGroup(
                name=GroupName(group.name),
                min_size=group.min_size,
                max_size=group.max_size,
                template=template_node(group.name, group.template),
                body=body,
                weather=_weather(group),
            )


def _weather(group: NodeGroup) -> Weather:
    said = group.kwok
    return Weather(
        appear_seconds=said.appear_after / SECOND,
        appear_spread_seconds=said.appear_spread / SECOND,
        boot_seconds=said.boot_after / SECOND,
        boot_spread_seconds=said.boot_spread / SECOND,
        failing=said.failing,
        silent=said.silent,
        unready=said.unready,
        stock=said.stock,
        quota=said.quota,
    )


def template_node(group: str, template: Template) -> Node:
    """A template as the rest of the house sees nodes."""
    body = node_body(template)
    named = {**body, "metadata": {**body["metadata"], "name": f"template-of-{group}", "uid": f"template-of-{group}"}}
    return NodeDecoder().decode(msgspec.json.encode(named))


def node_body(template: Template) -> dict[str, Any]:
    """A template as a Node object without a name. What is not said to be allocatable is allocatable whole."""
    capacity, allocatable = _resources(template.status.capacity), _resources(template.status.allocatable)
    return {
        "metadata": {"labels": dict(template.metadata.labels)},
        "spec": {"taints": [taint.model_dump() for taint in template.spec.taints]},
        "status": {"capacity": capacity, "allocatable": capacity | allocatable},
    }


def _resources(amounts: Mapping[str, Nanos]) -> dict[str, str]:
    return {name: str(quantity_text(amount)) for name, amount in amounts.items()}
