"""CEL selectors: what Kubernetes adds to the language, and what a device that lacks something means."""

import pytest

from slackwater.fit.devices import selectors
from slackwater.fit.devices.selectors import SelectorError, Selectors, UnsupportedSelector
from slackwater.model.devices import Capacity, Device, Version

DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
GPU = Device(
    name="gpu-0",
    attributes=(
        ("model", "h100"),
        ("index", 3),
        ("fast", True),
        ("rack.example.com/row", "r1"),
        ("version", Version("1.10.0")),
    ),
    capacity=(Capacity(name="memory", amount=80 * 2**30 * 10**9),),
)


def says(expression: str, device: Device = GPU) -> bool:
    return Selectors().match((expression,), DRIVER, device)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'{ATTRIBUTES}.model == "h100" && {ATTRIBUTES}.index < 3', False),
        ('device.attributes["rack.example.com"].row == "r1"', True),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) == 0', True),
        (f'device.capacity["{DRIVER}"].memory == quantity("85899345920")', True),
        (f'device.capacity["{DRIVER}"].memory.isLessThan(quantity("80G"))', False),
        (f'device.capacity["{DRIVER}"].memory.sub(quantity("79Gi")).add(1).asInteger() == 1073741825', True),
        (f'{ATTRIBUTES}.version.isGreaterThan(semver("1.9.0"))', True),
        (f'{ATTRIBUTES}.version.compareTo(semver("v1.10", true)) == 0', True),
        ('semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0-rc.10").isLessThan(semver("1.0.0"))', True),
        ('isQuantity("1Gi") && !isQuantity("x") && isSemver("1.2.3+b") && !isSemver("1.2")', True),
        (f'cel.bind(a, {ATTRIBUTES}, a.fast && a.model.startsWith("h"))', True),
        (f'{ATTRIBUTES}.?missing.orValue("none") == "none"', True),
        ('has(device.attributes["elsewhere.example.com"].thing)', False),
        ('"elsewhere.example.com" in device.attributes', False),
        (f'{ATTRIBUTES}.model.matches("^h[0-9]+$") && {ATTRIBUTES}.model.upperAscii() == "H100"', True),
        ("device.allowMultipleAllocations", False),
        (f"{ATTRIBUTES}.missing == 1 || true", True),
    ],
)
def test_selectors_read_attributes_and_capacity_as_kubernetes_does(expression: str, want: bool) -> None:
    assert says(expression) is want


@pytest.mark.parametrize("expression", [f"{ATTRIBUTES}.missing == 1", f"{ATTRIBUTES}.model", f'{ATTRIBUTES}.index > "x"'])
def test_an_expression_that_cannot_be_evaluated_is_an_error(expression: str) -> None:
    with pytest.raises(SelectorError):
        says(expression)


def test_an_attribute_that_kube_scheduler_cannot_read_is_an_error_for_every_selector() -> None:
    listed = Device(name="gpu-1", attributes=(("models", None),))
    with pytest.raises(SelectorError, match="attribute models: unsupported attribute value"):
        says("true", listed)
    wrong = Device(name="gpu-2", attributes=(("version", Version("1")),))
    with pytest.raises(SelectorError, match="not a semantic version"):
        says("true", wrong)


@pytest.mark.parametrize("expression", ["sets.contains([1], [1])", "no such syntax", "1 == 'x'"])
def test_an_expression_that_cannot_be_compiled_is_not_modelled(expression: str) -> None:
    with pytest.raises(UnsupportedSelector, match="CEL selector"):
        says(expression)


def test_an_expression_that_never_seems_to_end_is_an_error() -> None:
    many = str(list(range(100)))
    with pytest.raises(SelectorError, match="budget"):
        says(f"{many}.all(a, {many}.all(b, {many}.all(c, {many}.all(d, a + b + c + d >= 0))))")


def test_later_selectors_are_not_read_once_one_is_not_met() -> None:
    assert not Selectors().match(("false", f"{ATTRIBUTES}.missing == 1"), DRIVER, GPU)


def test_without_a_runtime_for_the_platform_every_selector_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "cel", None)
    selectors._environment.cache_clear()
    try:
        with pytest.raises(UnsupportedSelector, match="no wheel of cel-expr-python"):
            says('"without a runtime" == device.driver')
    finally:
        selectors._environment.cache_clear()
