"""What claims ask for: classes, selectors, counts, alternatives, constraints, tolerations, capacity."""

from typing import Final

from tests.oracle.generator.draw import Draw, Obj

RESOURCE: Final = "example.com/accelerator"
_GPU: Final = 'device.driver == "gpu.example.com"'
#: Each class with its selectors and the extended resource that it backs. "gone" does not exist.
CLASSES: Final[dict[str, tuple[tuple[str, ...], str | None]]] = {
    "gpu": ((_GPU,), RESOURCE),
    "gpu-two": ((_GPU, 'device.attributes["gpu.example.com"].?fast.orValue(false)'), RESOURCE),
    "big": ((_GPU, 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'), None),
    "nic": (('device.driver == "nic.example.com"',), None),
    "any": ((), None),
    "gone": ((), None),
}
_ATTRIBUTES: Final = 'device.attributes["gpu.example.com"]'
#: Selectors that hold for any device, or read only attributes that nearly every GPU has.
_SELECTORS: Final = (
    f'{_ATTRIBUTES}.model == "h100"',
    f"{_ATTRIBUTES}.index < 2",
    f"has({_ATTRIBUTES}.numa) && {_ATTRIBUTES}.numa == 0",
    f'"fast" in {_ATTRIBUTES} && {_ATTRIBUTES}.fast',
    f'{_ATTRIBUTES}.?version.orValue(semver("0.0.1")).isGreaterThan(semver("1.2.0"))',
    f'cel.bind(a, {_ATTRIBUTES}, a.model.startsWith("h") || a.index == 0)',
    'device.capacity["gpu.example.com"].memory.isLessThan(quantity("500Gi"))',
    'device.attributes["rack.example.com"].?row.orValue("") in ["r1", "r3"]',
    "device.allowMultipleAllocations == false",
    'has(device.attributes["nowhere.example.com"].thing) || true',
    f'{_ATTRIBUTES}.model.matches("^[ah]1") && {_ATTRIBUTES}.index + 1 > 0',
    f'["a100", "h100"].exists(m, m == {_ATTRIBUTES}.model)',
    f'{_ATTRIBUTES}.model.lowerAscii() != "x" && quantity("1Gi").isGreaterThan(quantity("1G"))',
    'device.attributes.exists(domain, domain.endsWith("example.com"))',
)
_MEMORY: Final = 'device.capacity["gpu.example.com"].memory'
#: Selectors with macros, bound variables, computed domains, and the functions of quantities.
_MACROS: Final = (
    f'{_ATTRIBUTES}.exists(k, k == "index") && cel.bind(m, ["h100"], {_ATTRIBUTES}.?model.orValue("") in m)',
    f'{_ATTRIBUTES}.all(k, k != "fast") || {_ATTRIBUTES}.?index.optMap(i, i < 3).orValue(false)',
    "[1, 2].exists(k, k == 1) && cel.bind(a, 5, cel.bind(b, 6, a + b == 11))",
    f'["a100", "h100"].map(m, [m, "x"].exists(k, k == m) ? cel.bind(n, m, n == {_ATTRIBUTES}.?model.orValue("")) : false)[1]',
    f'{_ATTRIBUTES}.exists_one(k, k.startsWith("f")) ? {_ATTRIBUTES}.filter(k, k == "numa").size() == 1 : true',
    "has(device.attributes[device.driver].fast)",
    '["nowhere.example.com", "rack.example.com"].exists(d, device.attributes[d].?row.orValue("") == "r1")',
    'cel.bind(all, device.attributes, all["rack.example.com"].?row.hasValue() && !has(all["nowhere.example.com"].row))',
    'device.capacity["nowhere." + "example.com"].?memory.hasValue()',
    f"sign({_MEMORY}) == 1 && {_MEMORY}.isInteger()",
    f'{_MEMORY} == quantity("81920Mi") || {_MEMORY}.sub(quantity("2000m")).add(2).isInteger()',
    'quantity("2000m").isInteger() || quantity("2") == quantity("2000m")',
    f"{_MEMORY}.asInteger() >= 42949672960 && {_MEMORY}.asApproximateFloat() > 1.0",
    f'{_ATTRIBUTES}.?version.orValue("none") != "1.2.0"',
    f'"1.2.0" == {_ATTRIBUTES}.?version.orValue("1.2.0")',
)
#: kube-scheduler fails on devices without the attribute.
_STRICT: Final = (
    f"{_ATTRIBUTES}.fast",
    f"{_ATTRIBUTES}.version.major() >= 1",
    f"{_ATTRIBUTES}.numa == 1",
    f'{_ATTRIBUTES}.version == "1.2.0"',
    f'{_ATTRIBUTES}.exists(k, {_ATTRIBUTES}[k] == "1.2.0")',
    'quantity("2") == quantity("1").add(1)',
    'quantity("2000m").asInteger() == 2',
)
_COMPARED: Final = (
    *("gpu.example.com/numa", "gpu.example.com/model", "gpu.example.com/index", "gpu.example.com/fast"),
    "rack.example.com/row",
)
_NIC_SELECTOR: Final = 'device.attributes["nic.example.com"].speed >= 100'


def spec(draw: Draw) -> Obj:
    """The spec of a claim."""
    requests = [_request(draw, f"r{i}") for i in range(draw.pick((1, 1, 1, 1, 2, 2, 3)))]
    devices: Obj = {"requests": requests}
    if draw.chance(0.25):
        devices["constraints"] = [_constraint(draw, requests) for _ in range(draw.pick((1, 1, 2)))]
    return {"devices": devices}


def _request(draw: Draw, name: str) -> Obj:
    if draw.chance(0.2):
        return {"name": name, "firstAvailable": [_ask(draw) | {"name": f"s{i}"} for i in range(draw.number(1, 3))]}
    ask = _ask(draw)
    if draw.chance(0.06):
        ask["adminAccess"] = True
    return {"name": name, "exactly": ask}


def _ask(draw: Draw) -> Obj:
    of_class = draw.pick(("gpu",) * 8 + ("gpu-two", "big", "nic", "nic", "any"))
    if draw.chance(0.02):
        of_class = "gone"
    ask: Obj = {"deviceClassName": of_class, "allocationMode": "ExactCount", "count": draw.pick((1, 1, 1, 1, 2, 2, 3, 4))}
    if draw.chance(0.12):
        ask["allocationMode"] = "All"
        del ask["count"]
    if of_class == "nic":
        selectors = [_NIC_SELECTOR] if draw.chance(0.4) else []
    elif of_class == "any":
        selectors = []
    else:
        selectors = draw.some(_SELECTORS, 0, 2)
        if draw.chance(0.3):
            selectors.append(draw.pick(_MACROS))
        if draw.chance(0.05):
            selectors.append(draw.pick(_STRICT))
    if selectors:
        ask["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    if draw.chance(0.15):
        ask["tolerations"] = [
            draw.pick(
                (
                    {"operator": "Exists"},
                    {"key": "gpu.example.com/sick", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "gpu.example.com/sick", "operator": "Equal", "value": "yes"},
                )
            )
        ]
    if draw.chance(0.15) and of_class != "nic":
        ask["capacity"] = {"requests": {"memory": draw.pick(("5Gi", "15Gi", "20Gi", "60Gi", "2Ti"))}}
    return ask


def _constraint(draw: Draw, requests: list[Obj]) -> Obj:
    attribute = draw.pick(
        (
            "gpu.example.com/numa",
            "gpu.example.com/model",
            "rack.example.com/row",
            "gpu.example.com/index",
            "gpu.example.com/fast",
        )
    )
    made: Obj = {draw.pick(("matchAttribute", "matchAttribute", "distinctAttribute")): attribute}
    if draw.chance(0.4):
        names = [request["name"] for request in requests]
        names += [f"{r['name']}/{s['name']}" for r in requests for s in r.get("firstAvailable", ())]
        made["requests"] = draw.some(names, 1, 2)
    return made
