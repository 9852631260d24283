"""CEL selectors: what Kubernetes adds to the language, and what a device that lacks something means."""

from collections.abc import Callable

import pytest

from slackwater.fit.devices import selectors
from slackwater.fit.devices.cel_tree import compile_selector
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


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2].exists(k, k == 1) && cel.bind(m, 7, m == 7)",
        "[1, 2].all(k, k == 2) || cel.bind(m, 7, cel.bind(n, 8, m == 7 && n == 8))",
        "[1, 2].exists(k, k == 1) && optional.of(7).optMap(m, m == 7).orValue(false)",
        "[1, 2].exists(k, k == 1) && optional.of(7).optFlatMap(m, optional.of(m == 7)).orValue(false)",
        "[1, 2].map(k, [k, 3].exists(j, j == k) ? cel.bind(m, k, m * 10) : -1) == [10, 20]",
        '{"a": {"b": [1, 2].exists(k, k == 1) && cel.bind(m, 7, m == 7)}}.a.b',
        "[1, 2].exists(k, [5, 6].exists(j, j == 5)) && cel.bind(m, 7, [9].exists(x, cel.bind(o, 9, m == 7 && o == x)))",
    ],
)
def test_a_bound_variable_is_not_that_of_a_macro_that_ended_early(expression: str) -> None:
    assert says(expression)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ('["elsewhere.example.com"].exists(d, has(device.attributes[d].thing))', False),
        (f'["elsewhere.example.com", "{DRIVER}"].exists(d, has(device.attributes[d].model))', True),
        ('cel.bind(a, device.attributes, a["elsewhere.example.com"].?thing.hasValue())', False),
        ("device.capacity[device.driver].?memory.hasValue()", True),
        ('device.capacity["else" + "where"].?memory.hasValue()', False),
        ("has(device.attributes.elsewhere.thing)", False),
        ("has(device.attributes.elsewhere)", True),
        ('device.attributes[?"elsewhere"].hasValue() && !device.attributes.?elsewhere.?thing.hasValue()', True),
        ('["elsewhere"].exists(d, d in device.attributes)', False),
    ],
)
def test_a_computed_domain_that_a_device_lacks_is_an_empty_map(expression: str, want: bool) -> None:
    assert says(expression) is want


_VERSION = f"{ATTRIBUTES}.version"


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (f'{_VERSION} == "1.10.0"', None),
        (f"{_VERSION} == {ATTRIBUTES}.model", None),
        (f'semver("1.10.0") == {ATTRIBUTES}.model', None),
        (f'quantity("3") == {ATTRIBUTES}.index', None),
        (f'cel.bind(v, {_VERSION}, v == "1.10.0")', None),
        (f'[{_VERSION}].exists(v, v == "1.10.0")', None),
        (f'{_VERSION} < "2"', None),
        (f"size({_VERSION}) > 1", None),
        (f'string({_VERSION}) == "1.10.0"', None),
        (f'{_VERSION} != "1.10.0"', True),
        (f'"1.10.0" == {_VERSION}', False),
        (f'{_VERSION} in ["1.10.0"]', False),
        (f'{_VERSION} == semver("1.10.0+build")', True),
        (f'{_VERSION} == "1.10.0" || {ATTRIBUTES}.fast', True),
        (f'{ATTRIBUTES}.model == "h100" && {ATTRIBUTES}.index != 4', True),
    ],
)
def test_a_version_is_not_compared_with_text(expression: str, want: bool | None) -> None:
    if want is None:
        with pytest.raises(SelectorError, match="no such overload"):
            says(expression)
    else:
        assert says(expression) is want


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (f'sign(device.capacity["{DRIVER}"].memory) == 1 && sign(quantity("-1")) == -1 && sign(quantity("0")) == 0', True),
        ('quantity("2000m").isInteger()', False),
        ('quantity("2.0").isInteger() || quantity("1Pi").isInteger() || quantity("1.5Gi").isInteger()', False),
        ('quantity("2").isInteger() && quantity("1Ti").isInteger() && quantity("1.5k").isInteger()', True),
        ('quantity("1500m").add(quantity("500m")).isInteger() || quantity("2").add(quantity("1000m")).isInteger()', False),
        ('quantity("50k").sub(20).isInteger() && quantity("0").add(quantity("2")).isInteger()', True),
        ('quantity("2000m") == quantity("2") && quantity("1500m").add(quantity("500m")) == quantity("2")', True),
        ('quantity("2") != quantity("1").add(1)', True),
        (f'device.capacity["{DRIVER}"].cores == quantity("2") && !device.capacity["{DRIVER}"].cores.isInteger()', True),
        ('isSemver("1.2-rc", true) || isSemver("1.0.0-01") || isSemver("1.0.0+a..b")', False),
    ],
)
def test_quantities_are_integers_where_kubernetes_reads_them_so(expression: str, want: bool) -> None:
    two = Capacity(name="cores", amount=2 * 10**9, unreduced=True)
    assert says(expression, Device(name="gpu-3", capacity=(*GPU.capacity, two))) is want


@pytest.mark.parametrize(
    "expression",
    ['quantity("2000m").asInteger() == 2', 'quantity("2") == quantity("1").add(1)', 'quantity("10E").asInteger() > 0'],
)
def test_what_kubernetes_cannot_convert_is_an_error(expression: str) -> None:
    with pytest.raises(SelectorError):
        says(expression)


def test_an_attribute_that_kube_scheduler_cannot_read_is_an_error_for_every_selector() -> None:
    listed = Device(name="gpu-1", attributes=(("models", None),))
    with pytest.raises(SelectorError, match="attribute models: unsupported attribute value"):
        says("true", listed)
    wrong = Device(name="gpu-2", attributes=(("version", Version("1")),))
    with pytest.raises(SelectorError, match="not a semantic version"):
        says("true", wrong)


@pytest.mark.parametrize("expression", ["sets.contains([1], [1])", "no such syntax", "1 == 'x'", 'quantity("1").sign() == 1'])
def test_an_expression_that_cannot_be_compiled_is_not_modelled(expression: str) -> None:
    with pytest.raises(UnsupportedSelector, match="CEL selector"):
        says(expression)


def test_an_expression_that_never_seems_to_end_is_an_error() -> None:
    many = str(list(range(100)))
    with pytest.raises(SelectorError, match="budget"):
        says(f"{many}.all(a, {many}.all(b, {many}.all(c, {many}.all(d, a + b + c + d >= 0))))")


@pytest.mark.parametrize(
    "nested",
    [
        lambda n: f"{ATTRIBUTES}.model" + f" + {ATTRIBUTES}.model" * n + ' == "h100"',
        lambda n: "(" * n + f"{ATTRIBUTES}.model" + f' == "x" ? "x" : {ATTRIBUTES}.model)' * n + ' == "h100"',
        lambda n: "device.attributes[" * n + "device.driver" + "].model" * n + ' == "h100"',
    ],
)
def test_nested_parts_are_not_multiplied_when_an_expression_is_rewritten(nested: Callable[[int], str]) -> None:
    """Anybody who may create a claim may write an expression: what it takes must not grow with the power of its depth."""
    sizes = [len(compile_selector(selectors._environment(), nested(n), strict=True).serialize()) for n in (4, 8)]
    assert sizes[1] < 3 * sizes[0]


@pytest.mark.parametrize(
    "nested",
    [
        lambda n: "(" * n + f"{ATTRIBUTES}.index == 3" + ")" * n,
        lambda n: "+".join("1" for _ in range(n)) + f" == {n}",
        lambda n: "[" * n + "1" + "]" * n + " != []",
        lambda n: "true ? (" * n + f"{ATTRIBUTES}.index == 3" + ") : false" * n,
        lambda n: "".join(f"[1].exists(v{each}, " for each in range(n)) + "true" + ")" * n,
        lambda n: "".join(f"cel.bind(v{each}, 1, " for each in range(n)) + "true" + ")" * n,
        lambda n: f"{ATTRIBUTES}.model" + " + 'x'" * n + " != 'x'",
    ],
)
def test_an_expression_that_nests_deeper_than_the_runtime_reads_is_refused_by_name(nested: Callable[[int], str]) -> None:
    """The API server accepts 250 levels: the answer is right, or there is none."""
    assert says(nested(16))
    for levels in (33, 60, 120, 249):
        with pytest.raises(
            UnsupportedSelector, match=r"CEL selector .*: it nests deeper than the 32 levels that Slackwater reads"
        ):
            says(nested(levels))


@pytest.mark.parametrize("text", ["!" * 200 + "({})", " && ".join(["{}"] * 200), " || ".join(["false"] * 200 + ["{}"])])
def test_long_expressions_that_do_not_nest_are_read(text: str) -> None:
    assert says(text.replace("{}", f"{ATTRIBUTES}.index == 3"))
    assert not says(text.replace("{}", f"{ATTRIBUTES}.index == 4"))


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
