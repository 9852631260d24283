"""The prices of Karpenter's NodeOverlays, as the service reads them before each loop."""

import json
from typing import Any

import pytest

from slackwater.adapters.api_calls import Read, Response
from slackwater.adapters.kube.errors import StatusError
from slackwater.app.node_prices import MOST, NodePrices, read_overlays
from slackwater.app.settings import loads
from tests.support.configuration import HEADER

pytestmark = pytest.mark.anyio


def an_overlay(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"requirements": [], **spec}}


class Api:
    """Answers the list."""

    def __init__(self, *items: dict[str, Any], status: int = 200, more: str = "") -> None:
        self.answer = Response(status, json.dumps({"items": items, "metadata": {"continue": more}}).encode())

    async def send(self, call: Read) -> Response:
        assert (call.path, call.params) == ("/apis/karpenter.sh/v1alpha1/nodeoverlays", {"limit": str(MOST)})
        return self.answer


async def test_the_heaviest_comes_first_and_one_that_cannot_be_read_has_no_effect() -> None:
    light, heavy = an_overlay("light", price="0.5"), an_overlay("heavy", weight=3, priceAdjustment="-10%")
    wrong, other = an_overlay("wrong", price="cheap"), an_overlay("other", capacity={"smarter.io/fuse": "1"})
    overlays, notes = await read_overlays(Api(light, wrong, other, heavy))
    assert [(each.name, each.price, each.percent) for each in overlays] == [("heavy", None, -10_000_000), ("light", 500_000, 0)]
    assert len(notes) == 1
    assert notes[0].startswith("NodeOverlay wrong has no effect: spec.price: got 'cheap', want ")


async def test_without_the_type_there_are_none_and_what_is_no_list_is_refused() -> None:
    assert await read_overlays(Api(status=404)) == ((), [])
    with pytest.raises(StatusError, match="nodeoverlays"):
        await read_overlays(Api(status=403))
    with pytest.raises(ValueError, match=f"got more than {MOST} NodeOverlays"):
        await read_overlays(Api(more="next"))


@pytest.mark.parametrize(
    ("section", "want"),
    [
        ("prices: {}, providers: {karpenter: {}}", ["cheap", "cheap", "dear"]),
        ("providers: {karpenter: {}}", []),  # no prices count
        ("prices: {}", []),  # no NodePool is a group
    ],
)
async def test_each_plan_counts_the_prices_that_were_read_last(section: str, want: list[str]) -> None:
    """An answer that is none leaves them as they were, and is noted."""
    settings = loads(f"{HEADER}autoscaler: {{enabled: true, {section}}}")
    api: Any = Api(an_overlay("cheap", price="0.1"))
    prices = NodePrices(settings, api)
    seen, notes = list[str](), list[str]()
    for answer in (api.answer, Response(503), Api(an_overlay("dear", price="9")).answer):
        api.answer = answer
        notes += await prices.read()
        seen += [] if prices.last is None else [each.name for each in prices.last.overlays]
    assert seen == want
    assert [note.partition(":")[0] for note in notes] == ["prices of NodeOverlays stay as they were"] * bool(want)
