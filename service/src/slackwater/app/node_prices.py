"""The prices of nodes: those of the settings, with Karpenter's NodeOverlays as they were read last.

NodeOverlays are few, and change rarely; a list costs less than a watch with its state. Karpenter ignores one that it cannot
read, so here it has no effect either, and a note says so.
"""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from slackwater.adapters.api_calls import ApiReads, Read
from slackwater.adapters.api_objects import ListWire, ObjectDecoder
from slackwater.adapters.kube.decode import read_meta
from slackwater.adapters.kube.errors import UNREADABLE, KubeError, refused
from slackwater.adapters.kube.node_overlays import decode_overlay
from slackwater.adapters.kube.resource_type import PATHS
from slackwater.app.clouds import uses_karpenter
from slackwater.app.prices import price_book_of
from slackwater.app.settings import Settings
from slackwater.model.prices import PriceOverlay, by_weight

_SECONDS: Final = 5.0
#: Each node's price looks at all of them; no cluster has as many.
MOST: Final = 1_000
_MOST_BYTES: Final = 16 * 2**20
_LIST: Final = ObjectDecoder(ListWire)
_PATH: Final = PATHS["nodeoverlays"]


async def read_overlays(api: ApiReads) -> tuple[tuple[PriceOverlay, ...], list[str]]:
    """The NodeOverlays that change prices, the heaviest first, and notes on those that cannot be read. None if the API server
    does not know the type. Raises KubeError, and ValueError for an answer that cannot be read or has more than `MOST`."""
    answer = await api.send(Read(_PATH, timeout_seconds=_SECONDS, params={"limit": str(MOST)}, most_bytes=_MOST_BYTES))
    if answer.status == HTTPStatus.NOT_FOUND:
        return (), []
    if answer.status != HTTPStatus.OK:
        raise refused(f"list {_PATH}", answer)
    page = _LIST.decode(answer.body)
    if page.metadata.continue_:
        raise ValueError(f"got more than {MOST} NodeOverlays, want fewer")
    found, notes = list[PriceOverlay](), list[str]()
    for item in page.items or ():
        try:
            found += [overlay] if (overlay := decode_overlay(item)) is not None else []
        except UNREADABLE as error:
            notes.append(f"NodeOverlay {read_meta(item).name} has no effect: {error}")
    return by_weight(found), notes


class NodePrices:
    """`last`: the prices for the next plan; None if none count."""

    def __init__(self, settings: Settings, client: ApiReads) -> None:
        self._client = client
        self._follows = uses_karpenter(settings)
        self.last = price_book_of(settings)

    async def read(self) -> Sequence[str]:
        """Reads the NodeOverlays before each loop, if NodePools are groups and prices count. Returns the problems to report;
        without an answer the prices stay as they were."""
        if self.last is None or not self._follows:
            return ()
        try:
            overlays, notes = await read_overlays(self._client)
        except (KubeError, *UNREADABLE) as error:
            return (f"prices of NodeOverlays stay as they were: {error}",)
        self.last = replace(self.last, overlays=overlays)
        return notes
