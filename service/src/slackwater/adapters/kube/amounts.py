"""Decodes ResourceLists, each distinct text once, because very many objects contain the same few texts.

CPU and memory, which every decision reads, become fields. All other resources (ephemeral storage, huge pages, extended
resources) stay a sorted list. Raises ValueError (`QuantityError`, msgspec's errors) for lists that cannot be read. Numbers are
bounded where they become integers of a column (`whole`, `model.requests.rounded_up`).
"""

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from slackwater.adapters.kube.wire import AmountsRaw, Quantity
from slackwater.model.resources import LARGEST_AMOUNT
from slackwater_protocol.units import QuantityError, parse_nanos

#: How many distinct texts are cached.
_CACHED_LISTS: Final = 16_384
_LIST: Final = msgspec.json.Decoder(dict[str, Quantity | None] | None)
_NULL: Final = b"null"
_NANOS: Final = 1_000_000_000
_NATIVE: Final = "kubernetes.io/"


class Asked(NamedTuple):
    """The amounts of one ResourceList, in nanos. `cpu` and `memory` are None if not named; `rest` is sorted by name."""

    cpu: int | None = None
    memory: int | None = None
    rest: tuple[tuple[str, int], ...] = ()


NOTHING_ASKED: Final = Asked()


def read_amounts(raw: AmountsRaw) -> Asked:
    return _read(bytes(raw))


@lru_cache(maxsize=_CACHED_LISTS)
def _read(raw: bytes) -> Asked:
    found = {} if raw == _NULL else _LIST.decode(raw) or {}
    nanos = {name: parse_nanos(amount) for name, amount in found.items() if amount is not None}
    cpu, memory = nanos.pop("cpu", None), nanos.pop("memory", None)
    return Asked(cpu, memory, tuple(sorted(nanos.items())))


def read_requests(raw: AmountsRaw) -> Asked:
    """Decodes a list in which the API server allows no negative amounts: requests, limits, overhead. Raises `QuantityError` for
    one.
    """
    return _read_requests(bytes(raw))


@lru_cache(maxsize=_CACHED_LISTS)
def _read_requests(raw: bytes) -> Asked:
    asked = _read(raw)
    for name, nanos in (("cpu", asked.cpu), ("memory", asked.memory), *asked.rest):
        if nanos is not None and nanos < 0:
            raise QuantityError(f"{nanos / _NANOS:g}", f"negative {name}, want 0 or more")
    return asked


def whole(nanos: int) -> int:
    """Nanos rounded up to whole units, as kube-scheduler counts every resource but CPU; at most `LARGEST_AMOUNT`."""
    return max(-LARGEST_AMOUNT, min(-(-nanos // _NANOS), LARGEST_AMOUNT))


def is_scalar(name: str) -> bool:
    """True if kube-scheduler counts the resource as a scalar resource, that is, one other than CPU and memory."""
    if name == "ephemeral-storage" or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and (not name.startswith("requests.") or _NATIVE in name)
