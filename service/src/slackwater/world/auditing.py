"""A node's books are put in order: what of them follows from its pods, its holds and itself is worked out anew.

Deliberately absent: whether its pods are those that the API server has; whoever audits looks at them first.
"""

from slackwater.model.ids import Instant, NodeName
from slackwater.world.books import Books
from slackwater.world.sums import sums_on, wanted_held, wrong_held, wrong_on


class Auditing:
    """Doubts nodes, and clears them."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._quarantine = books.quarantine

    def doubted(self, name: NodeName, why: str, now: Instant) -> None:
        """Something was found on the node that cannot be: nothing new is placed there."""
        self._quarantine.put(name, why, now)

    def put_in_order(self, name: NodeName, now: Instant) -> bool:
        """True where room may have appeared. A node on which something stays wrong is quarantined."""
        books = self._books
        row = books.nodes.row_of.get(name)
        if row is None:
            return False
        books.claims.place_again(name, row)
        sums = sums_on(books, name)
        books.ledger.restate(
            row,
            reserved=sums.reserved,
            buffer=sums.buffer,
            capacity_pressure=sums.capacity_pressure,
            pressure_accounted_for=sums.pressure_accounted_for,
            held=wanted_held(books)[:, row],
        )
        books.claims.shares.restate(row, sums.by_priority)
        books.nodes.open_again(name)
        still = [*wrong_on(books, name), *(found for found in wrong_held(books) if found.object == f"node {name}")]
        if still:
            self._quarantine.put(name, "; ".join(map(str, still)), now)
            return False
        self._quarantine.lift(name)
        books.nodes.room_appeared(row)
        return True
