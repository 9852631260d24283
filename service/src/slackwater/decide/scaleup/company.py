"""What the pods of a demand mean for one another on new nodes, told before any of them is placed.

Three cases. Most kinds mean nothing to others: a node is full when its amounts are. Some must not share a node, by
anti-affinity on the hostname or by host ports: then it is enough to know who stands on a node (`apart`). The rest, whose
verdict anywhere may change with a pod placed elsewhere (spread, affinity, terms over zones, volumes), are `moving`: they
are judged on the picture each time. A rule that no other pod of the demand can touch is settled by one look at an empty
new node, whatever it says.
"""

from collections.abc import Iterator, Sequence, Set

from slackwater.model.columns import Rows
from slackwater.model.particulars import EVERY_ADDRESS, HostPort
from slackwater.simulate.counters import Carrying
from slackwater.simulate.kindtable import KindId, Numbered
from slackwater.simulate.nodefacts import HOSTNAME
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.inter_pod_affinity import matches_all_its_terms, repelling_counters, term_counter


class Company:
    """See the module."""

    def __init__(self, picture: Picture, kinds: Sequence[KindId]) -> None:
        self._picture = picture
        self._here = frozenset(kinds)
        self._ports = _by_port(picture, kinds)
        self.moving = frozenset(kind for kind in kinds if self._moves(picture.of(kind)))
        self._apart: dict[KindId, frozenset[KindId]] = {}

    def apart(self, kind: KindId) -> frozenset[KindId]:
        """The kinds of the demand, perhaps itself among them, of which no pod may stand on the same node."""
        if kind not in self._apart:
            numbered = self._picture.of(kind)
            found = frozenset(self._apart_by_terms(numbered)) | frozenset(self._apart_by_ports(numbered))
            self._apart[kind] = found
        return self._apart[kind]

    def is_free_on_empty(self, kind: KindId, standing: Set[KindId]) -> bool:
        """Do the kind's rules about other pods let it onto every empty node where only `standing` kinds are?

        So it is where they are about the hostname alone, and about none of these.
        """
        numbered = self._picture.of(kind)
        if kind in self.moving or numbered.asks.affinity:
            return False
        counters = [(term, term_counter(self._picture, term)) for term in numbered.asks.anti_affinity]
        found = repelling_counters(self._picture, numbered)
        counters += [(counter.of.term, counter) for counter in found if isinstance(counter.of, Carrying)]
        return all(term.topology_key == HOSTNAME and standing.isdisjoint(counter.kinds) for term, counter in counters)

    def _moves(self, kind: Numbered) -> bool:
        asks = kind.asks
        if asks.claims or asks.disks or asks.inline_disks or any(constraint.hard for constraint in asks.spread):
            return True
        if asks.affinity and self._touches(term_counter(self._picture, *asks.affinity).kinds):
            return True
        if asks.affinity and matches_all_its_terms(self._picture, kind):
            return True
        own = (term for term in asks.anti_affinity if term.topology_key != HOSTNAME)
        if any(self._touches(term_counter(self._picture, term).kinds) for term in own):
            return True
        return any(
            isinstance(counter.of, Carrying) and counter.of.term.topology_key != HOSTNAME and self._touches(counter.kinds)
            for counter in repelling_counters(self._picture, kind)
        )

    def _touches(self, counted: dict[KindId, int]) -> bool:
        return not self._here.isdisjoint(counted)

    def _apart_by_terms(self, kind: Numbered) -> Iterator[KindId]:
        for term in kind.asks.anti_affinity:
            if term.topology_key == HOSTNAME:
                yield from self._here.intersection(term_counter(self._picture, term).kinds)
        for counter in repelling_counters(self._picture, kind):
            if isinstance(counter.of, Carrying) and counter.of.term.topology_key == HOSTNAME:
                yield from self._here.intersection(counter.kinds)

    def _apart_by_ports(self, kind: Numbered) -> Iterator[KindId]:
        for port in kind.asks.host_ports:
            for other, held in self._ports.get((port.protocol, port.port), ()):
                if _clash(port, held):
                    yield other


def _by_port(picture: Picture, kinds: Sequence[KindId]) -> dict[tuple[str, int], list[tuple[KindId, HostPort]]]:
    found: dict[tuple[str, int], list[tuple[KindId, HostPort]]] = {}
    for kind in kinds:
        for port in picture.of(kind).asks.host_ports:
            found.setdefault((port.protocol, port.port), []).append((kind, port))
    return found


def _clash(one: HostPort, other: HostPort) -> bool:
    return one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip)


def representatives(picture: Picture, kinds: Rows) -> Rows:
    """For each kind the first of those that nothing here tells apart: images and schedulers fill no node.

    Shape (len(kinds),). 22,000 pods without controllers are then a handful of kinds.
    """
    first: dict[object, int] = {}
    known: dict[int, int] = {}
    found = kinds.copy()
    for at, number in enumerate(kinds.tolist()):
        kind = known.get(number)
        if kind is None:
            kind = known[number] = first.setdefault(_alike(picture.of(KindId(number))), number)
        found[at] = kind
    return found


def _alike(numbered: Numbered) -> object:
    kind = numbered.kind
    labels = tuple(sorted(numbered.labels.items()))
    return (
        kind.namespace,
        kind.requests,
        kind.node_selector,
        kind.node_affinity,
        kind.tolerations,
        kind.missing_request,
        kind.particulars,
        labels,
        numbered.deleting,
    )
