"""Encodes one call of the state machine as a frame (method, time, arguments and answer), so that the call can be replayed.

A frame is the MessagePack of `[what, now, given, answer]`: the method's name, the time of the call in seconds, its arguments,
its answer. A record's first frame is `[START, 0, Start, null]`. Equal values give equal bytes, so answers are compared as
bytes. Frames contain no code: events and values are decoded by types from closed lists.
"""

from typing import Any, Final, get_args

import msgspec
import numpy as np

from slackwater.controllers.policy import Policy
from slackwater.model.columns import Rows
from slackwater.model.events import Event

FORMAT: Final = "slackwater.dev/record/v5"
START: Final = "start"
#: The last frame of a record that ended on purpose. Later calls of the process are not recorded.
END: Final = "end"


class Header(msgspec.Struct, frozen=True):
    """What the first frame has in every format."""

    format: str


class Start(Header, frozen=True, kw_only=True):
    """The arguments with which the state machine was created."""

    version: str
    seed: int
    policy: Policy


def _flat(value: object) -> object:
    """Encodes a numpy array as its type, shape and bytes, and a numpy scalar as a number."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), value.tobytes()]
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"record: got {type(value).__name__}, want a value, a column or a number")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_flat)


def encoded(value: object) -> bytes:
    """Encodes the value; equal values give equal bytes in every process. Effects have to be wrapped by `named` before."""
    return _ENCODER.encode(value)


def named(value: object) -> object:
    """Puts the name of its type before the value, for values of several possible types: `[name, value]`. A list or tuple gives
    the list of such pairs."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [named(each) for each in value]
    return [type(value).__name__, value]


def raised(error: Exception) -> object:
    """What is recorded as the answer of a call that raised an error."""
    return ["raised", type(error).__name__]


def frame(what: str, now: float, given: object, answer: object) -> bytes:
    """Encodes one call as a frame, whose four parts the module's docstring explains."""
    return _ENCODER.encode((what, now, given, answer))


class RecordedCall(msgspec.Struct, array_like=True, frozen=True):
    """One call whose arguments and answer are not decoded yet."""

    what: str
    now: float
    given: msgspec.Raw
    answer: msgspec.Raw


read_frame: Final = msgspec.msgpack.Decoder(RecordedCall).decode
read_header: Final = msgspec.msgpack.Decoder(Header).decode
read_start: Final = msgspec.msgpack.Decoder(Start).decode

_EVENTS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {}


def _leaves(union: Any) -> list[type]:
    return [leaf for part in get_args(union) for leaf in _leaves(part)] if get_args(union) else [union]


for _event in _leaves(Event):
    _EVENTS[_event.__name__] = msgspec.msgpack.Decoder(_event)

_named = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode


def read_event(raw: msgspec.Raw) -> Event:
    """Decodes an event by the name of its type.

    :raises msgspec.DecodeError: the bytes are not such an event.
    :raises KeyError: no event type has this name.
    """
    name, body = _named(raw)
    event: Event = _EVENTS[name].decode(body)
    return event


def rows_to_bytes(rows: Rows) -> bytes:
    return rows.astype(np.int64).tobytes()


def rows_of_bytes(raw: bytes) -> Rows:
    return np.frombuffer(raw, np.int64).astype(np.intp)
