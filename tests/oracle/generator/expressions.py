"""Random CEL expressions over GPUs: operators, macros and bound variables nested in one another, values of all types.

Two in three are taken by the API server, whose type check and cost limit are not modelled; few of those fail for a device.
"""

from collections.abc import Mapping
from typing import Final

from tests.oracle.generator.devices import API, GPU, gpu, slice_of
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.storage import named

_ATTRIBUTES: Final = 'device.attributes["gpu.example.com"]'
_CAPACITY: Final = 'device.capacity["gpu.example.com"]'
_NAMES: Final = ("index", "numa", "model", "fast", "version", "nothing")
#: Bound variables by type.
_Scope = Mapping[str, tuple[str, ...]]


def selector_cluster(draw: Draw) -> Obj:
    """A v1 List with a GPU on each of three nodes, and a pod whose claim selects a GPU by a random expression."""
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    nodes = [named("Node", f"n{i}", group="v1", status={"capacity": amounts}) for i in range(3)]
    slices = [slice_of(f"n{i}", GPU, f"n{i}", [gpu(draw, "gpu-0")], generation=1, count=1, nodeName=f"n{i}") for i in range(3)]
    selectors = [{"cel": {"expression": _Writer(draw).of("bool", draw.pick((2, 2, 3, 4)), {})}}]
    request = {"name": "r", "exactly": {"deviceClassName": "any", "selectors": selectors}}
    claim = named("ResourceClaim", "c", group=API, spec={"devices": {"requests": [request]}}, status={})
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    pod = named("Pod", "p", group="v1", spec=spec, status={"phase": "Pending"})
    for each in (claim, pod):
        each["metadata"]["namespace"] = "default"
    items = [*nodes, *slices, named("DeviceClass", "any", group=API, spec={}), claim, pod]
    return {"apiVersion": "v1", "kind": "List", "items": items}


class _Writer:
    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._bound = 0

    def of(self, kind: str, depth: int, scope: _Scope) -> str:
        """An expression of a type with at most so many levels."""
        pick = self._draw.pick
        if depth <= 0 or self._draw.chance(0.1):
            return pick((*_LEAVES[kind], *scope.get(kind, ()), *scope.get(kind, ())))
        if self._draw.chance(0.15):
            return (
                f"({self.of('bool', depth - 2, scope)} ? {self.of(kind, depth - 1, scope)} : {self.of(kind, depth - 1, scope)})"
            )
        if self._draw.chance(0.15):
            of_kind = pick((*_LEAVES, kind))
            name, inner = self._bind(of_kind, scope)
            return f"cel.bind({name}, {self.of(of_kind, depth - 1, scope)}, {self.of(kind, depth - 1, inner)})"
        if kind == "bool" and self._draw.chance(0.45):
            return self._macro(depth, scope)
        form = pick(_FORMS[kind])
        for part in ("bool", "int", "string", "quantity", "version"):
            while f"<{part}>" in form:
                form = form.replace(f"<{part}>", self.of(part, depth - 1, scope), 1)
        return form

    def _macro(self, depth: int, scope: _Scope) -> str:
        draw = self._draw
        of_kind = draw.pick(("int", "string", "string"))
        name, inner = self._bind(of_kind, scope)
        test = self.of("bool", depth - 1, inner)
        if draw.chance(0.2):
            source, of_source = draw.pick((("index", "int"), ("model", "string"), ("version", "version")))
            name, bound = self._bind(of_source, scope)
            default = draw.pick(("true", "false"))
            return f"{_ATTRIBUTES}.?{source}.optMap({name}, {self.of('bool', depth - 1, bound)}).orValue({default})"
        items = ", ".join(f"dyn({self.of(of_kind, depth - 2, scope)})" for _ in range(draw.number(1, 3)))
        ranges = [f"[{items}]"]
        if of_kind == "string":
            ranges += [_ATTRIBUTES, "device.attributes", f'{_ATTRIBUTES}.filter({name}, {name} != "fast")']
        over = draw.pick(ranges)
        macro = draw.pick(("exists", "exists", "all", "all", "exists_one", "filter", "map"))
        size = {"filter": ".size() > 1", "map": "[0]"}.get(macro, "")
        return f"({over}.{macro}({name}, {test}){size})"

    def _bind(self, kind: str, scope: _Scope) -> tuple[str, _Scope]:
        """A new variable, now and then of a name that is bound already, and the scope with it."""
        self._bound += not self._draw.chance(0.2) or not self._bound
        name = f"v{self._bound}"
        hidden = {each: tuple(var for var in names if var != name) for each, names in scope.items()}
        return name, {**hidden, kind: (*hidden.get(kind, ()), name)}


_LEAVES: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("true", "false", f"{_ATTRIBUTES}.?fast.orValue(false)", *(f"has({_ATTRIBUTES}.{name})" for name in _NAMES)),
    "int": ("0", "2", "7", f"{_ATTRIBUTES}.?index.orValue(2)", f"{_ATTRIBUTES}.?numa.orValue(0)"),
    "string": ('"h100"', '"a100"', '"fast"', '"2"', "device.driver", f'{_ATTRIBUTES}.?model.orValue("none")'),
    "quantity": ('quantity("40Gi")', 'quantity("1500m")', 'quantity("2")', f"{_CAPACITY}.memory", f"{_CAPACITY}.memory"),
    "version": ('semver("1.2.0")', 'semver("1.10.0-rc.1")', f'{_ATTRIBUTES}.?version.orValue(semver("2.0.0-rc.1"))'),
}
_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": (
        *("!(<bool>)", "(<bool> && <bool>)", "(<bool> || <bool>)", "<bool> == <bool>", "<bool> != <bool>"),
        *("<int> < <int>", "<int> == <int>", "<int> >= 1", "<int> in [dyn(<int>), 2]", "double(<int>) > 1.5"),
        *("<string> == <string>", '<string> < "b"', '<string>.startsWith("h")', '<string>.contains("1")'),
        *(f"<string> in {_ATTRIBUTES}", '<string> in ["a100", dyn(<string>)]', 'device.driver.matches("^[a-h]")'),
        *("<quantity>.isLessThan(<quantity>)", "<quantity>.isGreaterThan(<quantity>)", "<quantity> == <quantity>"),
        *("<quantity>.isInteger()", 'isQuantity("1.5e" + string(<int>))', "isSemver(string(<int>), true)"),
        *("<version>.isLessThan(<version>)", "<version>.isGreaterThan(<version>)", "<version> == <version>"),
        *(f"{_ATTRIBUTES}[?<string>].hasValue()", "device.attributes[?<string>].hasValue()"),
    ),
    "int": (
        *("<int> + <int>", "(<int> - <int>)", "size(<string>)", '<string>.indexOf("0")', "<int> % 3", "-(<int>)"),
        *("<quantity>.compareTo(<quantity>)", "sign(<quantity>)", "<version>.major()", "<version>.compareTo(<version>)"),
        *("[dyn(<int>), 3][0]", '{"a": 1, "b": dyn(<int>)}["b"]', '[dyn(<string>), "x"].size()'),
    ),
    "string": (
        *("(<string> + <string>)", "<string>.lowerAscii()", "<string>.upperAscii()", '["h100", dyn(<string>)][1]'),
        *('<string>.replace("0", "o")', '<string>.split("0")[0]', '"h100".substring(<int> % 3)', "string(<int>)"),
    ),
    "quantity": ("<quantity>.add(<quantity>)", "<quantity>.sub(<quantity>)", "<quantity>.add(<int>)", "[<quantity>][0]"),
    "version": ('semver("v1.10", true)', "[dyn(<version>), dyn(<version>)][1]", "cel.bind(w, <version>, w)"),
}
