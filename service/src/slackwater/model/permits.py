"""An agent's request for its pod, the answer, and the permit annotation.

- `PermitAsk`, `PermitDecision`, `PermitAnswer`, `PermitRefusal`: the values between the HTTP adapter and
  `runtime.flows.permits`. The adapter has already decoded a request and checked it against the protocol.
- `PersistedPermit`: the part of an agent's permit that outlives this process.

All amounts are integers, so a sum does not depend on the order of additions. Only the HTTP adapter knows the JSON and the names
of versions; the formula is in `model.pod_resources`.
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from slackwater.model.effects import Effect
from slackwater.model.ids import NodeName, PodKey, PodUid, Row
from slackwater.model.interning import cached_texts
from slackwater.model.resources import LARGEST_AMOUNT, Amounts
from slackwater_protocol.units import byte_count, milli_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load that the VM measured; it decides which pod migrates first."""

    load1_micro: int  #: load average of one minute, in millionths; >= 0
    load5_micro: int | None = None  #: of five minutes; only agents before v5.0 send it
    memory_usage_bytes: int | None = None  #: only agents before v5.0 send it


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller, where the HTTP adapter authenticates callers: it may ask only for pods of its own node."""

    node: NodeName
    name: str  #: as the certificate or the token has it; for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitAsk:
    """One agent request. Amounts are milliCPU and bytes; with `slots`, the memory of all three amounts is a number of slots
    instead.

    The size of a slot is a property of the pod, so `controllers.permits` converts slots to bytes. Fields of `asked` and
    `compute_unit` are > 0, of `last_permit` >= 0. All are < 2^63, but their sums and products may exceed an int64 column.
    """

    key: PodKey
    version: int  #: on the wire: 5 (v3.0), 6 (v4.0), 7 (v5.0)
    asked: Amounts  #: the total wanted; if it is less than Reserved, the agent has already given back the rest
    last_permit: Amounts | None  #: what a scheduler last permitted, we or another; None before the first answer
    compute_unit: Amounts | None  #: None (v3.0 only): the configured one
    load: Load | None
    slots: bool  #: memory counts slots (v3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitAnswer:
    """What the pod may use. `permit` is milliCPU and bytes; the HTTP adapter divides by `slot_bytes` for agents that count
    slots."""

    permit: Amounts
    slot_bytes: int  #: > 0; the permit's memory is a multiple of it for a VM whose agent counts slots
    migrate: bool  #: this request caused the decision to migrate the pod
    permit_limit_pending: bool  #: the permit is less than room allows, since the higher permit limit is not yet written
    node: NodeName | None = None  #: where the pod counts; for metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRefusal:
    """Why there is no permit: an HTTP status, a code for metrics and logs, and the text for the agent's log."""

    status: int
    code: str
    message: str
    node: NodeName | None = None  #: where the pod counts, if it does; for metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitDecision:
    """The decision about an agent's request, before a permit limit is persisted for it. `denied`: some growth had no room.

    `asked`: what the agent asks for. `held`: what the agent may use already. Both are in milliCPU and bytes,
    whatever units the agent uses. `first_odd`: this is the pod's first request that is no multiple of its compute unit.
    """

    uid: PodUid
    row: Row
    asked: Amounts
    held: Amounts
    slot_bytes: int
    notified: bool  #: the agent knows that the pod migrates, so it is permitted what it has
    migrate: bool
    denied: bool
    first_odd: bool
    effects: tuple[Effect, ...]


#: How many distinct annotation texts are cached, for reading and for writing: every request reads the texts of all counted
#: pods.
_CACHED_TEXTS: Final = 32_768
#: A longer text, of which we write none, is not cached.
_LONGEST_TEXT: Final = 512
#: The largest `number` and `epoch`: far above what counting reaches, and still exact in JSON.
_LARGEST_COUNTER: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedPermit:
    """The content of a permit annotation; `permit` <= `permit_limit`. `pod` is the UID of the pod whose permit it is, "" in
    texts of old versions that did not write it.

    The text of `slackwater.dev/permit` is `{"permit": {"vCPUs": "250m", "mem": "1Gi"}, "limit": {...}, "pod": "<uid>",
    "number": 7, "epoch": 3}`, with quantities as in the agent protocol. Every permit that was answered since the text was
    written is at most `limit`. `pod` is needed because a machine's annotation outlives its pods. `number` grows with each text
    that is written: no text ever occurs twice, and a write with an older precondition fails. `epoch` identifies the process
    that wrote the text: each process uses one more than the highest epoch that it finds. If texts contradict one another, those
    of lower epochs may be late writes of an earlier process.

    Values with equal amounts are equal, whatever the other fields.
    """

    permit: Amounts
    permit_limit: Amounts
    pod: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)
    epoch: int = field(default=0, compare=False)

    def text(self) -> str:
        return _text(self.permit, self.permit_limit, self.pod, self.number, self.epoch)


@lru_cache(maxsize=_CACHED_TEXTS)
def _text(permit: Amounts, permit_limit: Amounts, pod: str, number: int, epoch: int) -> str:
    whose = {"pod": pod, "number": number, "epoch": epoch} if pod else {}
    return json.dumps({"permit": permit.quantities, "limit": permit_limit.quantities, **whose}, separators=(",", ":"))


def read_written(text: str | None) -> PersistedPermit | None:
    """The content of the annotation; None if it is missing or cannot be read: in both cases the permit is unknown."""
    return None if text is None else _read_written(text)


@cached_texts(most=_CACHED_TEXTS, longest=_LONGEST_TEXT)
def _read_written(text: str) -> PersistedPermit | None:
    try:
        document = json.loads(text)
        permit, permit_limit = (_amounts(document[key]) for key in ("permit", "limit"))
        pod = str(document.get("pod", ""))
        number, epoch = (_counter(document.get(key, 0)) for key in ("number", "epoch"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    written = PersistedPermit(permit=permit, permit_limit=permit_limit, pod=pod, number=number, epoch=epoch)
    return written if permit.within(permit_limit) else None


def _counter(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNTER:
        return value
    raise ValueError(f"permit annotation: got {value!r:.40}, want a whole number from 0 to {_LARGEST_COUNTER}")


def _amounts(value: dict[str, str | int]) -> Amounts:
    amounts = Amounts(milli_cpu(value["vCPUs"]), byte_count(value["mem"]))
    if min(amounts) < 0 or max(amounts) > LARGEST_AMOUNT:
        raise ValueError(f"permit annotation: got {amounts}, want 0 to {LARGEST_AMOUNT} (milliCPU, bytes)")
    return amounts
