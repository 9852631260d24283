"""Objects of classes with `fast_init` are those that dataclasses would make."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from slackwater.model.fast_init import copier, fast_init


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    name: str
    size: int = 3
    tags: tuple[str, ...] = ()


with_size = copier(Thing, "size")


def test_objects_are_equal_hashed_shown_copied_and_pickled_as_those_of_a_dataclass() -> None:
    thing = Thing(name="a", tags=("x",))
    assert (thing.name, thing.size, thing.tags) == ("a", 3, ("x",))
    assert type(thing) is Thing
    assert thing == Thing(name="a", size=3, tags=("x",)) != Thing(name="b")
    assert hash(thing) == hash(Thing(name="a", tags=("x",)))
    assert repr(thing) == "Thing(name='a', size=3, tags=('x',))"
    assert replace(thing, size=4) == with_size(thing, 4) == Thing(name="a", size=4, tags=("x",))
    assert pickle.loads(pickle.dumps(thing)) == thing


def test_objects_are_frozen() -> None:
    made: Any = Thing(name="a")
    copied: Any = with_size(made, 4)
    for thing in (made, copied):
        with pytest.raises(FrozenInstanceError):
            thing.size = 5


@pytest.mark.parametrize(("arguments", "says"), [({}, "name"), ({"name": "a", "colour": 1}, "colour")])
def test_wrong_arguments_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Thing(**arguments)


def test_classes_that_need_more_than_their_fields_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class WithFactory:
        tags: list[str] = field(default_factory=list)

    @dataclass(frozen=True)
    class WithoutSlots:
        name: str

    for refused, says in ((WithFactory, "default_factory"), (WithoutSlots, "slots")):
        with pytest.raises(TypeError, match=says):
            fast_init(refused)
