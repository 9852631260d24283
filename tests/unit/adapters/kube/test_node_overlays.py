"""The price part of Karpenter's NodeOverlays."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.node_overlays import decode_overlay
from slackwater.model.prices import PriceOverlay
from slackwater.model.selectors import Requirement


def overlay(**spec: Any) -> PriceOverlay | None:
    body = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "o", "uid": "u", "resourceVersion": "1"},
        "spec": spec,
    }
    return decode_overlay(json.dumps(body).encode())


def test_a_price_and_its_requirements_are_read() -> None:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gte", "values": ["4"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lte", "values": ["16"]},
        {"key": "gpu", "operator": "DoesNotExist"},
    ]
    want = (
        Requirement("karpenter.sh/capacity-type", "In", ("spot",)),
        Requirement("karpenter.k8s.aws/instance-cpu", "Gt", ("3",)),
        Requirement("karpenter.k8s.aws/instance-cpu", "Lt", ("17",)),
        Requirement("gpu", "DoesNotExist", ()),
    )
    found = overlay(requirements=requirements, weight=10, price="0.05")
    assert found == PriceOverlay(name="o", weight=10, requirements=want, price=50_000)


@pytest.mark.parametrize(
    ("text", "want"),
    [("+10%", 110), ("-50%", 50), ("-100%", 0), ("+0.000005", 105), ("-.00005", 50), ("-3", 0), ("+33.3%", 133)],
)
def test_an_adjustment_changes_a_price(text: str, want: int) -> None:
    found = overlay(requirements=[], priceAdjustment=text)
    assert found is not None
    assert found.changed(100) == want


def test_an_overlay_of_capacity_alone_says_nothing_about_prices() -> None:
    assert overlay(requirements=[], weight=100, capacity={"smarter-devices/fuse": "1"}) is None


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"price": "cheap"}, r"spec\.price: got 'cheap', want a decimal number"),
        ({"priceAdjustment": "10%"}, r"spec\.priceAdjustment: got '10%', want a signed number or percentage"),
        ({"price": "1", "requirements": [{"key": "k", "operator": "Gte", "values": ["x"]}]}, "want one whole number"),
    ],
)
def test_what_no_api_server_stores_is_refused(spec: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        overlay(**spec)
