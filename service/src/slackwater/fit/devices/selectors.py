"""CEL selectors of devices: whether a device meets an expression of a class or a request.

    selectors = Selectors()
    selectors.match(('device.driver == "gpu.example.com"',), driver, device)

Google's CEL runtime evaluates the expressions. Kubernetes adds types for quantities and semantic versions; here both are bytes
with a mark in front, and the functions on them are ours (`fit.devices.cel_values`). Compiled expressions are rewritten where
the runtime evaluates them otherwise than kube-scheduler (`fit.devices.cel_tree`).

Deliberately absent: the API server's cost limit, since the API server has already refused dearer expressions. The runtime ends
loops that take too many steps.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from slackwater.fit.devices.cel_tree import compile_selector
from slackwater.fit.devices.cel_values import FUNCTIONS, quantity_value, version_value
from slackwater.model.devices import Attribute, Device, Version

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings
except ImportError:  # no wheel for this platform
    cel = None

#: How many compiled expressions are cached.
_MOST_COMPILED: Final = 1_024
_MOST_MATCHES: Final = 1_000_000
#: How deep an expression may nest, a sum of many terms included. The runtime's Python interface cannot raise it; the API server
#: and kube-scheduler (cel-go) take 250.
_DEEPEST: Final = 32
_TOO_DEEP: Final = re.compile(rf"recursion (?:limit exceeded\. limit:|depth of) {_DEEPEST}\b")
_MAKES_OURS: Final = re.compile(r"\b(?:semver|quantity|add|sub)\s*\(")


class SelectorError(Exception):
    """An expression cannot be evaluated for a device; kube-scheduler then ends the pod's scheduling cycle with an error."""


class UnsupportedSelector(Exception):
    """An expression cannot be compiled here: it uses a function that is not modelled or nests too deep,
    or the platform has no CEL runtime."""


class Selectors:
    """Evaluates CEL expressions for devices and caches the answers. Devices are distinguished by identity."""

    def __init__(self) -> None:
        #: The answer for a device: a bool, or the text of an error. Keeping the device keeps its id unique.
        self._answers: dict[tuple[str, int], tuple[Device, bool | str]] = {}
        self._inputs: dict[int, tuple[Device, dict[str, Any]]] = {}

    def match(self, expressions: tuple[str, ...], driver: str, device: Device) -> bool:
        """Whether the device meets all the expressions. They are evaluated in order, up to the first that the device does not
        meet.

        Raises SelectorError and UnsupportedSelector.
        """
        for expression in expressions:
            key = (expression, id(device))
            found = self._answers.get(key)
            if found is None:
                if len(self._answers) >= _MOST_MATCHES:
                    self._answers.clear()
                found = self._answers[key] = (device, self._evaluate(expression, driver, device))
            answer = found[1]
            if isinstance(answer, str):
                raise SelectorError(answer)
            if not answer:
                return False
        return True

    def _evaluate(self, expression: str, driver: str, device: Device) -> bool | str:
        # Whether it may compare quantities or versions of a device in a way that the runtime's bytes do not.
        strict = (
            _MAKES_OURS.search(expression) is not None
            or any(isinstance(value, Version) for _, value in device.attributes)
            or any(each.unreduced for each in device.capacity)
        )
        program = _compiled(expression, strict=strict)
        unread = [name for name, value in device.attributes if value is None]
        if unread:
            return f"attribute {unread[0]}: unsupported attribute value"
        try:
            value = program.eval(data={"device": self._input(driver, device)})
        except (RuntimeError, ValueError) as err:
            return f"selector {_shown(expression)}: {err}"
        answer = value.plain_value()
        if isinstance(answer, bool):
            return answer
        if value.type() == cel.Type.ERROR:
            status, colon, rest = str(answer).partition(": ")  # the runtime's status in front, such as NOT_FOUND
            return f"selector {_shown(expression)}: {rest if colon and status.isupper() else answer}"
        return f"selector {_shown(expression)}: got {_shown(answer)}, want true or false"

    def _input(self, driver: str, device: Device) -> dict[str, Any]:
        known = self._inputs.get(id(device))
        if known is None:
            if len(self._inputs) >= _MOST_MATCHES:
                self._inputs.clear()
            amounts = {each.name: quantity_value(each.amount, unreduced=each.unreduced) for each in device.capacity}
            found = {
                "driver": driver,
                "allowMultipleAllocations": device.shareable,
                "attributes": _by_domain(driver, {name: _value(value) for name, value in device.attributes}),
                "capacity": _by_domain(driver, amounts),
            }
            known = self._inputs[id(device)] = (device, found)
        return known[1]


def _by_domain(driver: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The values by domain and name. A name without a domain belongs to the driver's domain."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, slash, rest = name.partition("/")
        found.setdefault(domain if slash else driver, {})[rest if slash else name] = value
    return found


def _value(value: Attribute) -> Any:
    return version_value(value.text) if isinstance(value, Version) else value


def _shown(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 80 else f"{text[:77]}..."


@lru_cache(maxsize=_MOST_COMPILED)
def _compiled(expression: str, *, strict: bool) -> Any:
    """The compiled program (`compile_selector`). Raises UnsupportedSelector."""
    try:
        return compile_selector(_environment(), expression, strict=strict)
    except RuntimeError as err:
        first = str(err).removeprefix("INVALID_ARGUMENT: ").splitlines()[0]
        if _TOO_DEEP.search(first):
            first = f"it nests deeper than the {_DEEPEST} levels that Slackwater reads"
        raise UnsupportedSelector(f"CEL selector {_shown(expression)}: {first}") from err


@lru_cache(maxsize=1)
def _environment() -> Any:
    if cel is None:
        raise UnsupportedSelector("CEL selectors cannot be evaluated: this platform has no wheel of cel-expr-python")
    known = cel.Type
    types = {"bool": known.BOOL, "int": known.INT, "float": known.DOUBLE, "str": known.STRING, "bytes": known.BYTES}
    types["any"] = known("google.protobuf.Any")  # the only type of an argument that takes every value at run time
    functions: dict[str, list[Any]] = {}
    for function in FUNCTIONS:
        overload = cel.Overload(
            f"{function.name}_{'_'.join(function.takes)}",
            types[function.gives],
            [types[each] for each in function.takes],
            function.member,
            function.does,
        )
        functions.setdefault(function.name, []).append(overload)
    return cel.NewEnv(
        variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)},
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=[cel.FunctionDecl(name, overloads) for name, overloads in functions.items()],
    )
