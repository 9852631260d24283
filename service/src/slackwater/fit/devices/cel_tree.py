"""Rewrites compiled CEL expressions, so that Google's runtime evaluates them as kube-scheduler's does.

    program = compile_selector(environment, 'device.attributes["a.example"].model == "x"', strict=False)

A compiled expression is a tree of messages (cel.expr.CheckedExpr); this module reads and writes the parts of their wire format
that it changes:

- `device.attributes[x]` and `device.capacity[x]` read an empty map where the device has nothing of the domain x.
- Macros that end early (exists, all) run to their end in expressions that bind variables (cel.bind, optMap): the
  runtime (cel-cpp, as of cel-expr-python 0.1.3) would read a variable that is bound after them from what they left behind.
- With `strict`, quantities and versions, which are bytes to the runtime, are compared and converted by Kubernetes' rules.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

#: The fields of a message: pairs of tag (8 * the field's number + wire type) and value (an integer, or bytes).
_Fields = list[tuple[int, int | bytes]]

# Fields of cel.expr.Expr, one for each sort of node, and of the messages in them.
_ID, _CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
_TARGET, _FUNCTION, _ARGUMENT = 1, 2, 3
_VARIABLE, _RANGE, _ACCUMULATOR, _START, _CONDITION, _STEP, _RESULT = 1, 2, 3, 4, 5, 6, 7
_CHILDREN: Final[Mapping[int, frozenset[int]]] = {
    _SELECT: frozenset({1}),
    _CALL: frozenset({_TARGET, _ARGUMENT}),
    _LIST: frozenset({1}),
    _COMPREHENSION: frozenset({_RANGE, _START, _CONDITION, _STEP, _RESULT}),
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TYPE_URL_VALUE, _TYPES, _ROOT = 2, 3, 4  # of Any, and of CheckedExpr
_DYN: Final = 1  # field of cel.expr.Type
_PRIMITIVE_BYTES: Final = b"\x18\x06"
#: The ids of nodes that are added; the parser counts from 1.
_FIRST_ID: Final = 1 << 30

#: Functions that `strict` calls instead of operators: (left, right) -> 0 or 1, or 2 where the runtime is to compare; and
#: (value) -> true, an error for quantities and versions.
SAME: Final = "@same"
DIFFERENT: Final = "@different"
PLAIN: Final = "@plain"
_COMPARED: Final = {"_==_": SAME, "_!=_": DIFFERENT}
_NOT_FOR_OURS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_", "_+_", "size", "string", "bytes"})
_BINDS: Final = re.compile(r"\b(?:bind|optMap|optFlatMap)\s*\(")


def compile_selector(environment: Any, expression: str, *, strict: bool) -> Any:
    """The program of an expression. Raises the runtime's RuntimeError for an expression that it does not compile."""
    outer = _fields(environment.compile(expression).serialize())
    checked = _fields(_only(outer, _TYPE_URL_VALUE))
    types, late = dict(_types(checked)), _BINDS.search(expression) is not None
    rewriter = _Rewriter(types, strict=strict, late=late)
    root = rewriter.node(_only(checked, _ROOT), frozenset())
    if rewriter.binds and not late:
        root = _Rewriter(types, strict=strict, late=True).node(_only(checked, _ROOT), frozenset())
    changed = _message([(tag, root if tag >> 3 == _ROOT else value) for tag, value in checked])
    return environment.deserialize(_message([(tag, changed if tag >> 3 == _TYPE_URL_VALUE else value) for tag, value in outer]))


def _types(checked: _Fields) -> Iterator[tuple[int, bytes]]:
    """The ids of nodes with their types, as far as the type check knows them."""
    for tag, entry in checked:
        if tag >> 3 == _TYPES and isinstance(entry, bytes):
            (_, node), (_, kind) = _fields(entry)
            assert isinstance(node, int)
            assert isinstance(kind, bytes)
            yield node, kind


class _Rewriter:
    def __init__(self, types: Mapping[int, bytes], *, strict: bool, late: bool) -> None:
        self._types = types
        self._strict = strict
        self._late = late
        self._next_id = _FIRST_ID
        #: Whether the rewritten expression binds variables that the expression does not.
        self.binds = False

    def node(self, data: bytes, maps: frozenset[str]) -> bytes:
        """Rewrites a node with all below it. `maps` are the variables that are bound to a map of domains."""
        fields = _fields(data)
        sort, body = next((tag >> 3, _fields(value)) for tag, value in fields if tag >> 3 != _ID and isinstance(value, bytes))
        children = _CHILDREN.get(sort, frozenset())
        inner = self._bound(body, maps) if sort == _COMPREHENSION else maps
        new = [(tag, self._child(tag >> 3, value, inner if tag >> 3 == _RESULT else maps, children)) for tag, value in body]
        if sort == _STRUCT:
            new = [(tag, self._entry(value, maps) if tag >> 3 == 2 else value) for tag, value in body]
        if sort == _COMPREHENSION and self._late and _function(_only(body, _CONDITION)) == "@not_strictly_false":
            new = [(tag, self._constant_true() if tag >> 3 == _CONDITION else value) for tag, value in new]
        same = _message([(tag, _message(new) if tag >> 3 == sort else value) for tag, value in fields])
        if sort == _SELECT:
            return self._selected(body, same, maps)
        return self._called(body, new, same, maps) if sort == _CALL else same

    def _child(self, field: int, value: int | bytes, maps: frozenset[str], children: frozenset[int]) -> int | bytes:
        return self.node(value, maps) if field in children and isinstance(value, bytes) else value

    def _entry(self, entry: int | bytes, maps: frozenset[str]) -> bytes:
        """An entry of a map or message: its key (field 3) and its value (field 4) are nodes."""
        assert isinstance(entry, bytes)
        return _message([(tag, self._child(tag >> 3, value, maps, frozenset({3, 4}))) for tag, value in _fields(entry)])

    def _bound(self, comprehension: _Fields, maps: frozenset[str]) -> frozenset[str]:
        """The variables that are maps of domains in the result of a comprehension, which is how cel.bind is written."""
        name = _only(comprehension, _ACCUMULATOR).decode()
        return maps | {name} if _is_map_of_domains(_only(comprehension, _START), maps) else maps - {name}

    def _selected(self, body: _Fields, same: bytes, maps: frozenset[str]) -> bytes:
        """`attributes.name`, and `has(attributes.name)`, which is true of every domain."""
        if not _is_map_of_domains(_only(body, 1), maps):
            return same
        if any(tag >> 3 == 3 and value for tag, value in body):
            return self._constant_true()
        return self._or_empty(same, _only(body, 1), self._new(_CONST, [(_tag(6, _BYTES), _only(body, 2))]))

    def _called(self, body: _Fields, new: _Fields, same: bytes, maps: frozenset[str]) -> bytes:
        function = _only(body, _FUNCTION).decode()
        old = [value for tag, value in body if tag >> 3 == _ARGUMENT and isinstance(value, bytes)]
        arguments = [value for tag, value in new if tag >> 3 in (_TARGET, _ARGUMENT) and isinstance(value, bytes)]
        if function in ("_[_]", "_[?_]", "_?._") and _is_map_of_domains(old[0], maps):
            domains, name = arguments
            found = self._let(name, lambda name: self._or_empty(self._call("_[_]", domains, name), domains, name))
            return found if function == "_[_]" else self._call("optional.of", found)
        if not self._strict or not arguments:
            return same
        # Only a value whose type is bytes or unknown may be a quantity or a version.
        node = next((value for tag, value in _fields(arguments[0]) if tag >> 3 == _ID), 0)
        kind = self._types.get(node) if isinstance(node, int) else None
        if kind is not None and kind != _PRIMITIVE_BYTES and kind[0] >> 3 != _DYN:
            return same
        if function in _COMPARED:
            left, right = arguments
            return self._let(left, lambda left: self._let(right, lambda right: self._compared(function, left, right)))
        if function in _NOT_FOR_OURS:
            first, *others = arguments

            def checked(value: bytes) -> bytes:
                return self._call(
                    "_?_:_", self._call(PLAIN, value), self._call(function, value, *others), self._constant_true()
                )

            return self._let(first, checked)
        return same

    def _compared(self, function: str, left: bytes, right: bytes) -> bytes:
        def decided(verdict: bytes) -> bytes:
            by_runtime = self._call("_==_", verdict, self._number(2))
            return self._call(
                "_?_:_", by_runtime, self._call(function, left, right), self._call("_==_", verdict, self._number(1))
            )

        return self._let(self._call(_COMPARED[function], left, right), decided)

    def _let(self, value: bytes, use: Callable[[bytes], bytes]) -> bytes:
        """A node that uses a value several times, bound to a variable as cel.bind does, so that no nesting multiplies nodes."""
        if any(tag >> 3 in (_CONST, _IDENT) for tag, _ in _fields(value)):
            return use(value)
        self.binds = True
        name = f"@{self._next_id}".encode()
        variable = self._new(_IDENT, [(_tag(1, _BYTES), name)])
        parts = (
            (_VARIABLE, b"#unused"),
            (_RANGE, self._new(_LIST, [])),
            (_ACCUMULATOR, name),
            (_START, value),
            (_CONDITION, self._new(_CONST, [(_tag(2, _VARINT), 0)])),
            (_STEP, variable),
            (_RESULT, use(variable)),
        )
        return self._new(_COMPREHENSION, [(_tag(field, _BYTES), part) for field, part in parts])

    def _or_empty(self, found: bytes, domains: bytes, name: bytes) -> bytes:
        return self._call("_?_:_", self._call("@in", name, domains), found, self._new(_STRUCT, []))

    def _call(self, function: str, *arguments: bytes) -> bytes:
        return self._new(
            _CALL, [(_tag(_FUNCTION, _BYTES), function.encode()), *((_tag(_ARGUMENT, _BYTES), each) for each in arguments)]
        )

    def _constant_true(self) -> bytes:
        return self._new(_CONST, [(_tag(2, _VARINT), 1)])

    def _number(self, value: int) -> bytes:
        return self._new(_CONST, [(_tag(3, _VARINT), value)])

    def _new(self, sort: int, body: _Fields) -> bytes:
        self._next_id += 1
        return _message([(_tag(_ID, _VARINT), self._next_id), (_tag(sort, _BYTES), _message(body))])


def _is_map_of_domains(data: bytes, maps: frozenset[str]) -> bool:
    """Whether a node is `device.attributes`, `device.capacity`, or a variable that is bound to one of them."""
    for tag, value in _fields(data):
        if tag >> 3 == _IDENT and isinstance(value, bytes):
            return _only(_fields(value), 1).decode() in maps
        if tag >> 3 == _SELECT and isinstance(value, bytes):
            body = _fields(value)
            (operand,) = (each for each in _fields(_only(body, 1)) if each[0] >> 3 != _ID)
            of_device = operand[0] >> 3 == _IDENT and isinstance(operand[1], bytes) and _fields(operand[1])[0][1] == b"device"
            return of_device and _only(body, 2) in (b"attributes", b"capacity") and len(body) == 2
    return False


def _function(data: bytes) -> str:
    """The function that a node calls; empty for other nodes."""
    return next(
        (_only(_fields(v), _FUNCTION).decode() for tag, v in _fields(data) if tag >> 3 == _CALL and isinstance(v, bytes)), ""
    )


# --- wire format ------------------------------------------------------------------------------------------------------------


def _tag(number: int, wire_type: int) -> int:
    return number << 3 | wire_type


def _only(fields: _Fields, number: int) -> bytes:
    """The message or text of a field; empty if the field is absent."""
    found = next((value for tag, value in fields if tag >> 3 == number), b"")
    assert isinstance(found, bytes)
    return found


def _fields(data: bytes) -> _Fields:
    found: _Fields = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == _VARINT:
            value, at = _varint(data, at)
            found.append((tag, value))
            continue
        length, at = _varint(data, at) if tag & 7 == _BYTES else ({_FIXED64: 8, _FIXED32: 4}[tag & 7], at)
        found.append((tag, data[at : at + length]))
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _message(fields: _Fields) -> bytes:
    parts: list[bytes] = []
    for tag, value in fields:
        parts.append(_as_varint(tag))
        if isinstance(value, int):
            parts.append(_as_varint(value))
        else:
            parts.extend([_as_varint(len(value)), value] if tag & 7 == _BYTES else [value])
    return b"".join(parts)


def _as_varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
