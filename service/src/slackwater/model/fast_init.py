"""A decorator for frozen dataclasses that are made for every pod: their objects are constructed in less time.

    @fast_init
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Pod: ...

A frozen dataclass sets each field through `object.__setattr__`. Here the fields are set while the object has the class of a
twin, which has the same slots and is not frozen: a pod with its 26 fields takes 1.5 µs instead of 6, a hold 1.0 instead of 1.7.
Afterwards the object is as frozen as any other.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_SLOTS: Final = "__slots__"


def fast_init(made: type[T]) -> type[T]:
    """Replaces the constructor of a frozen dataclass with slots by a quicker one with the same arguments.

    :raises TypeError: the class has a `default_factory`, a `__post_init__` or no slots.
    """
    twin = _twin(made)
    known = _fields(made)
    names: dict[str, Any] = {"_set": object.__setattr__, "_twin": twin}
    names |= {f"_default_of_{field.name}": field.default for field in known if field.default is not MISSING}
    arguments = ", ".join(_argument(field) for field in known)
    keywords = "*, " if known and known[0].kw_only else ""
    lines = [
        f"def __init__(self, {keywords}{arguments}):",
        "    made = self.__class__",
        "    _set(self, '__class__', _twin)",
        *(f"    self.{field.name} = {field.name}" for field in known),
        "    self.__class__ = made",
    ]
    cast("Any", made).__init__ = _defined("__init__", lines, names, made)
    return made


def copier(made: type[T], changed: str) -> Callable[[T, Any], T]:
    """A function that copies an object of the dataclass with one field changed: `copy(object, value)`."""
    lines = [
        "def copy(other, value):",
        "    made = _new(_twin)",
        *(f"    made.{field.name} = other.{field.name}" for field in _fields(made) if field.name != changed),
        f"    made.{changed} = value",
        "    made.__class__ = _made",
        "    return made",
    ]
    copy: Callable[[T, Any], T] = _defined("copy", lines, {"_new": object.__new__, "_twin": _twin(made), "_made": made}, made)
    return copy


def _fields(made: type) -> "tuple[Field[Any], ...]":
    return fields(cast("Any", made))


def _twin(made: type) -> type:
    if _SLOTS not in vars(made) or hasattr(made, "__post_init__"):
        raise TypeError(f"{made.__name__}: want a dataclass with slots and without __post_init__")
    return type(f"{made.__name__}Twin", (), {_SLOTS: vars(made)[_SLOTS]})


def _argument(field: "Field[Any]") -> str:
    if field.default_factory is not MISSING:
        raise TypeError(f"{field.name}: a default_factory, want a default or none")
    return field.name if field.default is MISSING else f"{field.name}=_default_of_{field.name}"


def _defined(name: str, lines: list[str], names: dict[str, Any], made: type) -> Any:
    """The function that the lines define, as dataclasses does it for its own."""
    exec("\n".join(lines), names)
    function = names[name]
    function.__qualname__ = f"{made.__qualname__}.{name}"
    return function
