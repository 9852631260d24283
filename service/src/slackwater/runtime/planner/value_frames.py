"""Encodes and decodes values in pieces of bounded size, for the pipes between the service and its planning process.

    for frame in encoder.frames(value): ...      # each step is about a millisecond of work, however large the value
    arrived = decoder.take(frame)                 # None until the whole value has arrived

- `Encoder`, `Decoder`: turn a value into a series of frames and back. Each frame is a pickle.
- `framed`, `read_frame`: a frame as it is on a pipe, preceded by its length in four bytes, big-endian; and how to read it.

Equivalence groups and eviction facts, which many pods share, are sent in full once, and afterwards as a number as long as they
exist. A pod that the other side sent is returned as its UID. Pickles are safe here: both ends are this program, and no other
program can write to the pipes.
"""

import pickle
import re
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from io import BytesIO
from itertools import count, islice
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, BinaryIO, Final, Literal
from weakref import ref

from msgspec import Struct

from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.interning import Shared
from slackwater.model.objects import Labels, Pod
from slackwater.model.pod_constraints import Kind, KindInterner

#: The intended size of a piece in bytes: about a millisecond of work at each end.
_AIM: Final = 16 * 1024
#: Collections with more entries than this are sent in pieces; the first piece has this many.
_LONG: Final = 64
#: Pods that were made at the same second are mostly sent together. Every second has a text of its own, so a table of all of
#: them would grow for days.
_MOST_TIMES: Final = 4_096

_Reducer = Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]
_Shape = Literal["mapping", "sequence"]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A value that has arrived completely; it may be None."""

    value: Any


class Encoder:
    """Encodes values for one pipe, for its whole life.

    `framed_types`: the types within which long collections are sent ahead in pieces. `theirs`: says whether the other side sent
    this very pod object, so that its UID is enough.
    """

    def __init__(self, framed_types: frozenset[type], *, theirs: Callable[[Pod], bool] = lambda _: False) -> None:
        self._framed_types = framed_types
        self._shared = _Numbers()
        self._reducers = _Reducers()
        self._reducers[Kind] = self._reducers[EvictionFacts] = self._shared.reduced
        self._reducers[Later] = lambda later: (Later, (later.number, later.shape))
        self._reducers[Pod] = partial(_reduced_pod, theirs)
        # Priorities of groups have some. A pickler with a table of its own does not use the interpreter's, which has patterns.
        self._reducers[re.Pattern] = lambda pattern: (re.compile, (pattern.pattern, pattern.flags))

    def frames(self, value: object) -> Iterator[bytes]:
        """The value as frames, which the decoder must receive in this order."""
        whole = yield from self._apart(value, count())
        yield self._pickled(None, whole)

    def _apart(self, value: Any, numbers: "count[int]") -> Generator[bytes, None, Any]:
        """The value with each long collection replaced by a `Later`; yields the frames of these collections."""
        kind: type = type(value)
        if kind in self._framed_types:
            names, parts = _names(kind), _reader_of(kind)(value)
            apart = yield from self._each(parts, numbers)
            changed = {name: new for name, old, new in zip(names, parts, apart, strict=True) if new is not old}
            return replace(value, **changed) if changed else value
        if kind is dict:
            if len(value) > _LONG:
                return (yield from self._entry_frames(iter(value.items()), "mapping", next(numbers)))
            return dict(zip(value, (yield from self._each(value.values(), numbers)), strict=True))
        if kind is tuple or kind is list:
            if len(value) > _LONG:
                return (yield from self._entry_frames(iter(value), "sequence", next(numbers)))
            return tuple((yield from self._each(value, numbers)))
        return value

    def _each(self, values: Iterable[Any], numbers: "count[int]") -> Generator[bytes, None, list[Any]]:
        found = []
        for value in values:
            apart = yield from self._apart(value, numbers)
            found.append(apart)
        return found

    def _entry_frames(self, entries: Iterator[Any], shape: _Shape, number: int) -> Generator[bytes, None, "Later"]:
        size = _LONG
        while some := list(islice(entries, size)):
            frame = self._pickled(number, some)
            yield frame
            size = max(1, min(4 * size, len(some) * _AIM // len(frame)))
        return Later(number, shape)

    def _pickled(self, number: int | None, content: object) -> bytes:
        forgotten = self._shared.take_forgotten()
        into = BytesIO()
        pickler = pickle.Pickler(into, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = self._reducers
        pickler.dump((number, content, forgotten))
        return into.getvalue()


class Decoder:
    """Decodes the frames of one encoder. `pod_of` returns the pod that this side sent earlier, by its UID."""

    def __init__(self, *, pod_of: Callable[[PodUid], Pod] | None = None) -> None:
        self._kinds = KindInterner()
        self._known: dict[int, Any] = {}
        self._pieces: dict[int, list[Any]] = {}
        self._texts: Shared[str] = Shared()
        self._times: Shared[str] = Shared(_MOST_TIMES)
        self._labels: Shared[Labels] = Shared(unit=1)
        self._words: dict[str, Callable[..., Any]] = {
            rebuilt.__name__: rebuilt,
            New.__name__: self._new,
            Known.__name__: self._known.__getitem__,
            Later.__name__: self._later,
            KnownObjects.__name__: self._pod,
        }
        if pod_of is not None:
            self._words[KnownPod.__name__] = pod_of

    def take(self, frame: bytes) -> Arrived | None:
        """Decodes one frame. Returns the value if this is its last frame, else None."""
        number, content, forgotten = _Reader(frame, self._words).load()
        for gone in forgotten:
            del self._known[gone]
        if number is None:
            return Arrived(content)
        self._pieces.setdefault(number, []).extend(content)
        return None

    def _new(self, number: int, kind: type, *values: Any) -> Any:
        found = rebuilt(kind, *values)
        if isinstance(found, Kind):
            found = self._kinds.intern(found.whole())
        self._known[number] = found
        return found

    def _later(self, number: int, shape: _Shape) -> Any:
        entries = self._pieces.pop(number)
        return dict(entries) if shape == "mapping" else tuple(entries)

    def _pod(self, namespace: str, name: str, *values: Any) -> Pod:
        """A pod from the values of its fields. Equal texts and labels are shared between pods, to save memory."""
        share = self._texts.share
        fields = dict(zip(_OF_POD, values, strict=True))
        fields["labels"] = self._labels.share(fields["labels"])
        fields["created_at"] = self._times.share(fields["created_at"])
        if fields["node"] is not None:
            fields["node"] = share(fields["node"])
        return Pod(key=PodKey(share(namespace), name), **fields)


class _Reader(pickle.Unpickler):
    """An unpickler that resolves the names of this module to the decoder's functions in `words`."""

    def __init__(self, frame: bytes, words: dict[str, Callable[..., Any]]) -> None:
        super().__init__(BytesIO(frame))
        self._words = words

    def find_class(self, module: str, name: str) -> Any:
        return self._words[name] if module == __name__ else super().find_class(module, name)


# --- names to which pickles refer; the decoder calls its own function for each (`Decoder._words`) -----------------------------


def rebuilt(kind: type, *values: Any) -> Any:
    """Makes a frozen dataclass or a Struct from the values of its fields; a dataclass without running its checks again."""
    if hasattr(kind, "__struct_fields__"):
        return kind(**dict(zip(_names(kind), values, strict=True)))
    made: Any = object.__new__(kind)
    for put, value in zip(_setters(kind), values, strict=True):
        put(made, value)
    return made


@dataclass(frozen=True, slots=True)
class Later:
    """Stands for a long collection whose pieces were sent ahead."""

    number: int
    shape: _Shape


class New:
    """Stands for a shared value sent for the first time: its number, its type, the values of its fields."""


class Known:
    """Stands for a shared value sent before: its number."""


class KnownObjects:
    """Stands for a pod: the values of its fields."""


class KnownPod:
    """Stands for a pod that the receiver has: its UID."""


# --- reducers -------------------------------------------------------------------------------------------------------------


class _Reducers(dict[type, _Reducer]):
    """The pickle reducers by type. pickle's own reducer for frozen dataclasses is ten times slower."""

    def __missing__(self, kind: type) -> _Reducer:
        found = _reducer_of(kind)
        if found is None:
            raise KeyError(kind)
        self[kind] = found
        return found


def _reducer_of(kind: type) -> _Reducer | None:
    if issubclass(kind, tuple):
        return lambda value: (kind, tuple(value))
    if not (is_dataclass(kind) or issubclass(kind, Struct)) or not all(
        isinstance(getattr(kind, name, None), MemberDescriptorType) for name in _names(kind)
    ):
        return None
    read = _reader_of(kind)
    return lambda value: (rebuilt, (kind, *read(value)))


#: The fields of a pod except its key, which is sent as two texts: that is faster, and there are very many pods.
_OF_POD: Final = tuple(name for name in Pod.__struct_fields__ if name != "key")
_read_pod: Final = attrgetter("key.namespace", "key.name", *_OF_POD)


def _reduced_pod(theirs: Callable[[Pod], bool], pod: Pod) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return (KnownPod, (pod.uid,)) if theirs(pod) else (KnownObjects, _read_pod(pod))


class _Numbers:
    """Numbers the shared values, so that each is sent in full only once. Distinguishes values by identity, because comparing
    them would take longer than sending them."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, ref[Any]]] = {}
        self._next = count()
        self._forgotten: list[int] = []

    def reduced(self, value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        known = self._numbers.get(id(value))
        if known is not None:
            return Known, (known[0],)
        number, address = next(self._next), id(value)
        kind: type = type(value)
        self._numbers[address] = number, ref(value, lambda _: self._forget(address))
        return New, (number, kind, *_reader_of(kind)(value))

    def _forget(self, address: int) -> None:
        """Releases the number of an object that no longer exists; `address` is its `id()`, which Python may give to another."""
        self._forgotten.append(self._numbers.pop(address)[0])

    def take_forgotten(self) -> tuple[int, ...]:
        forgotten, self._forgotten = self._forgotten, []
        return tuple(forgotten)


@cache
def _names(kind: type) -> tuple[str, ...]:
    known: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    return tuple(field.name for field in fields(kind)) if known is None else known


@cache
def _setters(kind: type) -> tuple[Callable[[Any, Any], None], ...]:
    """The functions that set the fields of a new frozen dataclass instance, one for each field."""
    return tuple(getattr(kind, name).__set__ for name in _names(kind))


@cache
def _reader_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = _names(kind)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


HEAD: Final = struct.Struct(">I")


def framed(frame: bytes) -> bytes:
    """The frame preceded by its length, as it is written to the pipe."""
    return HEAD.pack(len(frame)) + frame


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The next frame; None if the pipe has ended, even in the middle of a frame."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (length,) = HEAD.unpack(head)
    frame = pipe.read(length)
    return frame if len(frame) == length else None
