"""An API server's nodes and pods as an audit reads them, from memory; and what happens while it reads."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import anyio.lowlevel

from slackwater.model.ids import NodeName, PodKey
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import AuditReadError, Listing


def nothing() -> None:
    """Nothing happens."""


@dataclass
class Cluster:
    """Implements `ports.protocols.AuditReads`. `after_list` is called once all pods are listed; `down`: nothing is answered."""

    nodes_now: dict[str, Node] = field(default_factory=dict)
    pods_now: dict[PodKey, Pod] = field(default_factory=dict)
    version: int = 0
    after_list: Callable[[], None] = nothing
    down: bool = False
    unreadable: tuple[tuple[str, str], ...] = ()
    reads: list[str] = field(default_factory=list)

    def has(self, *objects: Node | Pod) -> None:
        for each in objects:
            self.version = max(self.version, each.resource_version)
            if isinstance(each, Node):
                self.nodes_now[each.name] = each
            else:
                self.pods_now[each.key] = each

    def _listing_version(self) -> int:
        if self.down:
            raise AuditReadError("nobody answers")
        return self.version

    async def nodes(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Node], None]:
        yield Listing(self._listing_version(), tuple(self.nodes_now.values()), self.unreadable)

    async def pods(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Pod], None]:
        version, pods = self._listing_version(), list(self.pods_now.values())
        for start in range(0, len(pods), 3):
            yield Listing(version, tuple(pods[start : start + 3]))
            await anyio.lowlevel.checkpoint()
        yield Listing(version, (), self.unreadable)
        self.after_list()

    async def node(self, name: NodeName, *, timeout_seconds: float) -> Node | None:
        self._listing_version()
        self.reads.append(name)
        await anyio.lowlevel.checkpoint()
        return self.nodes_now.get(name)

    async def pod(self, key: PodKey, *, timeout_seconds: float) -> Pod | None:
        self._listing_version()
        self.reads.append(str(key))
        await anyio.lowlevel.checkpoint()
        return self.pods_now.get(key)
