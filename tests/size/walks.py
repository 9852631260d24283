"""Follows a parameter through the calls that pass it on, and counts what a reader who does the same has to enter.

A **stay** is a time in one file, a **return** a stay in a file that was entered before, a **name** a function that gets the
value. Followed are the value, its parts (`pod.need`), what is computed of it (`names(pod)`), and the fields that hold it.
Calls are taken in the order of their evaluation, and each function is followed once for each set of parameters that carry the
value. What is called is found by annotations and by what `__init__` assigns; if neither says it, a method is followed if only
one class has one of its name. So the counts are no proof, but they are the same for the same code, and comparable.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: What says which object a value is, and is not the value.
_IDENTITY: Final = frozenset({"uid", "key", "name", "namespace", "priority"})
_DEEPEST: Final = 60


@dataclass(frozen=True, kw_only=True)
class _Defined:
    """A function with its module, and its class if it is a method."""

    node: Function
    module: str
    owner: str | None


@dataclass(frozen=True, kw_only=True)
class _Class:
    """A class: its methods, the annotations of its fields, and whether it is a Protocol."""

    node: ast.ClassDef
    module: str
    methods: Mapping[str, Function]
    fields: Mapping[str, ast.expr]

    @property
    def is_protocol(self) -> bool:
        return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in self.node.bases)


class Code:
    """Functions and classes of some modules, by their full name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.functions: dict[str, _Defined] = {}
        self.classes: dict[str, _Class] = {}
        self._imports: dict[str, dict[str, str]] = {}
        for path, text in files.items():
            module = path.partition("/src/")[2].removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            self._read(module, ast.parse(text))
        self._by_name: dict[str, list[str]] = {}
        for name, each in self.functions.items():
            if each.owner is not None and not self.classes[each.owner].is_protocol:
                self._by_name.setdefault(each.node.name, []).append(name)

    def _read(self, module: str, tree: ast.Module) -> None:
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        self._imports[module] = {
            each.asname or each.name: f"{node.module}.{each.name}" for node in imports for each in node.names
        }
        for node in tree.body:
            if isinstance(node, Function):
                self.functions[f"{module}.{node.name}"] = _Defined(node=node, module=module, owner=None)
            if isinstance(node, ast.ClassDef):
                self._read_class(module, node)

    def _read_class(self, module: str, node: ast.ClassDef) -> None:
        name = f"{module}.{node.name}"
        methods = {each.name: each for each in node.body if isinstance(each, Function)}
        annotated = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        fields = {each.target.id: each.annotation for each in annotated if isinstance(each.target, ast.Name)}
        self.classes[name] = _Class(node=node, module=module, methods=methods, fields=fields)
        for method, function in methods.items():
            self.functions[f"{name}.{method}"] = _Defined(node=function, module=module, owner=name)

    def start(self, endings: Sequence[str]) -> str:
        """The full name of the only function whose name ends in one of these ways."""
        [found] = [name for name in self.functions if name.endswith(tuple(f".{ending}" for ending in endings))]
        return found

    def _full(self, name: str, module: str) -> str | None:
        """The full name of what a module calls `name`."""
        found: str | None = f"{module}.{name}"
        for _ in range(4):  # a name may be handed on by an `__init__`
            if found is None or found in self.functions or found in self.classes:
                return found
            within, _, last = found.rpartition(".")
            found = self._imports.get(within, {}).get(last)
        return found

    def _annotated(self, annotation: ast.expr | None, module: str) -> str | None:
        """The class that an annotation names; of a union the first one."""
        match annotation:
            case ast.Name(id=name):
                full = self._full(name, module)
                return full if full in self.classes else None
            case ast.Constant(value=str(text)):
                return self._annotated(ast.parse(text, mode="eval").body, module)
            case ast.BinOp(left=left, right=right):
                return self._annotated(left, module) or self._annotated(right, module)
            case _:
                return None

    def types(self, function: _Defined) -> dict[str, str | None]:
        """The class of each local name, as far as it is known."""
        arguments = function.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        known = {each.arg: self._annotated(each.annotation, function.module) for each in every}
        if function.owner is not None:
            known |= {name: function.owner for name in ("self", "cls") if name in known}
        for target, value in _assigned(function.node):
            if isinstance(target, ast.Name) and target.id not in known:
                known[target.id] = self.type_of(value, function.module, known)
        return known

    def type_of(self, value: ast.expr, module: str, known: Mapping[str, str | None]) -> str | None:
        match value:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=of, attr=attribute):
                return self._field(self.type_of(of, module, known), attribute)
            case ast.IfExp(body=one, orelse=other):
                return self.type_of(one, module, known) or self.type_of(other, module, known)
            case ast.Call():
                called = self.called(value, module, known)
                if called in self.functions:
                    return self._annotated(self.functions[called].node.returns, self.functions[called].module)
                return called
            case _:
                return None

    def _bases(self, name: str | None) -> Iterator[tuple[str, _Class]]:
        """The class and what it inherits from."""
        if name is None or name not in self.classes:
            return
        found = self.classes[name]
        yield name, found
        for base in found.node.bases:
            if isinstance(base, ast.Name):
                yield from self._bases(self._full(base.id, found.module))

    def _field(self, owner: str | None, attribute: str) -> str | None:
        for name, each in self._bases(owner):
            if attribute in each.fields:
                return self._annotated(each.fields[attribute], each.module)
            if attribute in each.methods:
                return self._annotated(each.methods[attribute].returns, each.module)
            if (begin := each.methods.get("__init__")) is None:
                continue
            arguments = (*begin.args.args, *begin.args.kwonlyargs)
            known = {each_one.arg: self._annotated(each_one.annotation, each.module) for each_one in arguments} | {"self": name}
            for target, value in _assigned(begin):
                if _of_self(target) == attribute and (found := self.type_of(value, each.module, known)):
                    return found
        return None

    def called(self, call: ast.Call, module: str, known: Mapping[str, str | None]) -> str | None:
        """The full name of the function or class that is called."""
        if isinstance(call.func, ast.Name):
            return self._full(call.func.id, module)
        if not isinstance(call.func, ast.Attribute):
            return None
        method, owner = call.func.attr, self.type_of(call.func.value, module, known)
        for name, each in self._bases(owner):
            if method in each.methods and not each.is_protocol:
                return f"{name}.{method}"
        if isinstance(call.func.value, ast.Name):
            full = f"{self._imports[module].get(call.func.value.id)}.{method}"
            if full in self.functions:
                return full
        only = self._by_name.get(method, [])
        return only[0] if len(only) == 1 else None


def _assigned(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target with its value, tuples taken apart."""
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            assert isinstance(node, ast.Assign)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield target, node.value


def _of_self(target: ast.expr) -> str | None:
    """`name` if the target is `self.name`."""
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return None


class _Calls(ast.NodeVisitor):
    """Collects calls in the order in which they are evaluated."""

    def __init__(self, function: Function) -> None:
        self.found: list[ast.Call] = []
        for statement in function.body:
            self.visit(statement)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        self.found.append(node)


@dataclass
class _Carried:
    """What carries the value in one function: local names, and fields of objects by the class of the object."""

    names: set[str]
    fields: dict[str, set[str]]
    type_of: Callable[[ast.expr], str | None]

    def has(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self.names and name != "self"
            case ast.Attribute(value=of, attr=attribute):
                return self._has_part(of, attribute)
            case _:
                return any(map(self.has, _parts(value)))

    def _has_part(self, of: ast.expr, attribute: str) -> bool:
        own = isinstance(of, ast.Name) and of.id == "self"
        if (own and "self" not in self.names) or not (own or self.has(of)):
            return False
        holding = self.fields.get(self.type_of(of) or "")
        return attribute in (holding or ()) if own or holding else attribute not in _IDENTITY

    def assign(self, function: Function) -> None:
        """Adds what the function assigns the value to."""
        for target, value in _assigned(function):
            if self.has(value):
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Name):
                        self.names.add(part.id)
                    elif isinstance(part, ast.Attribute) and _of_self(part):
                        self.fields.setdefault(self.type_of(part.value) or "", set()).add(part.attr)


def _parts(value: ast.expr) -> Sequence[ast.expr]:
    """The expressions of which one has to carry the value, so that the whole does."""
    match value:
        case ast.Starred(value=of) | ast.Await(value=of) | ast.Subscript(value=of):
            return (of,)
        case ast.Tuple(elts=parts):
            return parts
        case ast.ListComp(elt=part, generators=loops) | ast.GeneratorExp(elt=part, generators=loops):
            return (part, *(loop.iter for loop in loops))
        case ast.DictComp(key=key, value=part, generators=loops):
            return (key, part, *(loop.iter for loop in loops))
        case ast.Call(func=called, args=arguments, keywords=keywords):
            receiver = [called.value] if isinstance(called, ast.Attribute) else []
            return (*receiver, *arguments, *(each.value for each in keywords))
        case _:
            return ()


class Walk:
    """The walk of one parameter from one function on."""

    def __init__(self, code: Code, starts: Sequence[str], parameter: str) -> None:
        self._code = code
        self._stays: list[str] = []
        self._followed: set[tuple[str, frozenset[str]]] = set()
        self._fields: dict[str, set[str]] = {}
        self.names: list[str] = []
        first = code.functions[code.start(starts)]
        self._whole = code.types(first)[parameter]  # all of it is the value, so none of its fields is noted
        self._follow(code.start(starts), frozenset({parameter}), 0)

    def counts(self) -> tuple[int, int, int, int]:
        """Stays, files, returns, names."""
        files = len(set(self._stays))
        return len(self._stays), files, len(self._stays) - files, len(self.names)

    def _enter(self, module: str) -> None:
        if self._stays[-1:] != [module]:
            self._stays.append(module)

    def _follow(self, name: str, parameters: frozenset[str], depth: int) -> None:
        function = self._code.functions[name]
        self._enter(function.module)
        if name not in self.names:
            self.names.append(name)
        if (name, parameters) in self._followed or depth > _DEEPEST:
            return
        self._followed.add((name, parameters))
        known = self._code.types(function)
        carried = _Carried(set(parameters), self._fields, lambda value: self._code.type_of(value, function.module, known))
        for _ in range(2):  # a loop may use a name before the line that assigns it
            carried.assign(function.node)
        for call in _Calls(function.node).found:
            called = self._code.called(call, function.module, known)
            if called in self._code.classes:
                self._note_fields(call, called, carried)
                called = f"{called}.__init__"
            if called in self._code.functions and (got := self._passed(call, called, carried)):
                self._follow(called, got, depth + 1)
                self._enter(function.module)

    def _note_fields(self, call: ast.Call, made: str, carried: _Carried) -> None:
        """Notes which fields of an object without an `__init__` of its own hold the value."""
        holding = {
            each.arg for each in call.keywords if each.arg in self._code.classes[made].fields and carried.has(each.value)
        }
        if holding and made != self._whole:
            self._fields.setdefault(made, set()).update(name for name in holding if name)

    def _passed(self, call: ast.Call, called: str, carried: _Carried) -> frozenset[str]:
        """The parameters of the called function that get the value."""
        target = self._code.functions[called]
        positional = [each.arg for each in (*target.node.args.posonlyargs, *target.node.args.args)]
        if target.owner is not None and positional[:1] in (["self"], ["cls"]):
            del positional[0]
        got = {name for name, value in zip(positional, call.args, strict=False) if carried.has(value)}
        got |= {each.arg for each in call.keywords if each.arg and carried.has(each.value)}
        on_self = (
            isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
        )
        of_it = isinstance(call.func, ast.Attribute) and carried.has(call.func.value)
        if of_it or (on_self and "self" in carried.names) or (got and called.endswith(".__init__")):
            got.add("self")
        return frozenset(got)
