"""What several adapters read of the API server: the decoder of its JSON, metadata, conditions, requirements, pages of lists,
ConfigMaps.

msgspec skips the fields that nobody reads by recursion, and Python ends that after 1,000 levels. The API server stores 10,000:
anybody may write them into `managedFields` or into a claim's opaque parameters, and one such object would make a whole list
unreadable.
"""

import re
import sys
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

T = TypeVar("T")

#: Numbers of the API's width: larger ones are refused by the decoder.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

#: The API always writes text; files written by people also have numbers.
Quantity = str | int | float

#: The API server's limit (k8s.io/apimachinery's JSON decoder), and some more for what stands around an object. Skipping a level
#: takes less than 50 bytes of the C stack.
_LEVELS: Final = 10_100
#: Fields whose keys are chosen by people and whose values are texts.
_MAPS_OF_TEXTS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})
#: The null that the API server itself writes: in each condition of a pod, before other fields.
_NOT_PROBED: Final = re.compile(rb'"lastProbeTime"(?<!\\"lastProbeTime")\s*:\s*null\s*,')


class ObjectDecoder(Generic[T]):
    """Decodes JSON into the struct `of`. A null field counts as unset, also where the struct allows no null. Raises msgspec's
    errors, and `RecursionError` for what no API server stores."""

    __slots__ = ("_decode",)

    def __init__(self, of: type[T]) -> None:
        self._decode = msgspec.json.Decoder(of).decode

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            return self._decode(without_nulls(raw))  # slow, and rare: an API server writes no such null
        except RecursionError:
            usual = sys.getrecursionlimit()
            sys.setrecursionlimit(usual + _LEVELS)
            try:
                return self._decode(raw)
            finally:
                sys.setrecursionlimit(usual)


def without_nulls(raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """The JSON without fields that are null: API machinery reads null as unset. What cannot be read stays as it is: its
    decoder says why."""
    text = bytes(raw)
    if b"null" not in text:
        return raw
    text = _NOT_PROBED.sub(b"", text)
    if b"null" not in text:
        return text
    try:
        return msgspec.json.encode(_unset(msgspec.json.decode(text)))
    except (ValueError, RecursionError):
        return raw


def _unset(part: Any, *, of_texts: bool = False) -> Any:
    """`part` without null fields. In a map of texts (`of_texts`) null is the empty text, as in Go."""
    if isinstance(part, list):
        return [_unset(each) for each in part]
    if not isinstance(part, dict):
        return part
    if of_texts:
        return {key: "" if value is None else value for key, value in part.items()}
    return {key: _unset(value, of_texts=key in _MAPS_OF_TEXTS) for key, value in part.items() if value is not None}


class Wire(Struct, gc=False, rename="camel"):
    """The base of the structs of API objects. Fields have defaults, because the API leaves out empty fields; lists may be null.
    Unknown fields are skipped.

    The structs live for one decode. They cannot form cycles, so the cyclic garbage collector does not track them (`gc=False`).
    """


class OwnerWire(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class BaseMetaWire(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None


class ObjectMetaWire(BaseMetaWire):
    """The metadata of an object, with all its annotations."""

    annotations: dict[str, str] | None = None


class ObjectWire(Wire):
    """The base of objects with all their annotations."""

    metadata: ObjectMetaWire = field(default_factory=ObjectMetaWire)


class ConfigMapWire(ObjectWire):
    data: dict[str, str] | None = None


class ConditionWire(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RequirementWire(Wire):
    """A requirement on labels or fields."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class ListMetaWire(Wire):
    resource_version: str = ""
    continue_: str = field(name="continue", default="")
    remaining_item_count: int | None = None


class ListWire(Wire):
    """One page of a list. Its objects are undecoded, so that a broken one does not affect the others."""

    metadata: ListMetaWire = field(default_factory=ListMetaWire)
    items: list[Raw] | None = None
