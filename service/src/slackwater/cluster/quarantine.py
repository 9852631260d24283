"""Quarantined nodes, where nothing new is placed: an audit doubts their sums, or an object that counts there cannot be read.

Pods on such a node stay, and other nodes are not affected. The quarantine of a doubted node ends when an audit finds its sums
correct; agents there are answered as usual. The quarantine of a node with an unreadable object ends when the object can be
read, has ended or is gone. Until then the free room is unknown, so workloads there do not grow either. This module does not
decide which nodes are doubted, or when a doubt ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slackwater.cluster.nodes import NodeTable
from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, NodeName


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Why and since when a node is quarantined. `why` is a text for people."""

    why: str
    since: Instant


class Quarantine:
    """The quarantined nodes by name."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._doubted: dict[NodeName, Quarantined] = {}
        #: The objects that cannot be read, by node and UID. The node may not be known yet.
        self._unreadable: dict[NodeName, dict[str, Quarantined]] = {}
        self._node_of: dict[str, NodeName] = {}
        #: The rows of the quarantined nodes; a few at most.
        self.rows: Rows = np.zeros(0, np.intp)

    def put(self, name: NodeName, why: str, now: Instant) -> bool:
        """Quarantines a node because an audit doubts its sums, or replaces the reason. False if the node was already doubted or
        is unknown."""
        if name not in self._nodes.row_of:
            return False
        known = self._doubted.get(name)
        self._doubted[name] = Quarantined(why, now if known is None else known.since)
        if known is None:
            self._changed(name)
        return known is None

    def lift(self, name: NodeName) -> bool:
        """Ends an audit's doubt about a node; False if there was none. Unreadable objects keep the node quarantined."""
        if self._doubted.pop(name, None) is None:
            return False
        self._changed(name)
        return True

    @property
    def doubted(self) -> int:
        """How many nodes wait for an audit."""
        return len(self._doubted)

    def close_for(self, uid: str, name: NodeName, why: str, now: Instant) -> None:
        """Quarantines the node on which an object counts that cannot be read."""
        if self._node_of.get(uid, name) != name:
            self.readable(uid)
        self._node_of[uid] = name
        closes = name not in self
        on_node = self._unreadable.setdefault(name, {})
        known = on_node.get(uid)
        on_node[uid] = Quarantined(why, now if known is None else known.since)
        if closes:
            self._changed(name)

    def readable(self, uid: str) -> bool:
        """Removes an object that was read or is gone; True if that ends the quarantine of its node."""
        name = self._node_of.pop(uid, None) if self._node_of else None
        if name is None:
            return False
        on_node = self._unreadable[name]
        del on_node[uid]
        if on_node:
            return False
        del self._unreadable[name]
        self._changed(name)
        return name not in self

    def objects(self) -> set[str]:
        """The UIDs of the objects that are known to be unreadable."""
        return set(self._node_of)

    def has_object(self, uid: str) -> bool:
        """Whether the object is known to be unreadable."""
        return uid in self._node_of

    def has_unreadable(self, name: NodeName) -> bool:
        """Whether an object that counts on the node cannot be read."""
        return name in self._unreadable

    def node_opened(self, name: NodeName) -> None:
        """Updates `rows` after the node got a row."""
        if name in self._unreadable:
            self._changed(name)

    def node_closing(self, name: NodeName) -> None:
        """Updates the quarantine before a node loses its row: an audit's doubt about the node ends, and its row is removed from
        `rows`."""
        self._doubted.pop(name, None)
        row = self._nodes.row_of[name]
        node = self._nodes.by_row[row]
        if node is not None:
            self.readable(node.uid)
        self.rows = self.rows[self.rows != row]

    def _changed(self, name: NodeName) -> None:
        rows = (self._nodes.row_of.get(each) for each in dict.fromkeys([*self._doubted, *self._unreadable]))
        self.rows = np.array([row for row in rows if row is not None], np.intp)
        if name in self._nodes.row_of:
            self._nodes.rules_changed(name)

    def __contains__(self, name: object) -> bool:
        return name in self._doubted or name in self._unreadable

    def items(self) -> Iterator[tuple[NodeName, Quarantined]]:
        """Each quarantined node once, with the reason of its doubt, or else of the first object there that cannot be read."""
        unreadable = {name: next(iter(found.values())) for name, found in self._unreadable.items()}
        return iter({**unreadable, **self._doubted}.items())

    def __len__(self) -> int:
        return len({*self._doubted, *self._unreadable})
