"""An agent's request for its pod, and the answer: the values between the HTTP adapter and `controllers.permits`.

Each agent request becomes one `PermitAsk`, already read and checked against the protocol. Deliberately absent: the wire (JSON,
names of versions: the adapter has them) and the formula (`model.ledger.growth`). Integers only, so that any order is exact.
"""

from dataclasses import dataclass

from slackwater.model.ids import NodeName, PodKey
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load that the VM measured; it decides which pod migrates first."""

    load1_micro: int  #: load average of one minute, in millionths; >= 0
    load5_micro: int | None = None  #: of five minutes; only agents before v5.0 send it
    memory_usage_bytes: int | None = None  #: only agents before v5.0 send it


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The authenticated caller, where the HTTP adapter authenticates: it may ask for pods of its own node only."""

    node: NodeName
    name: str  #: as the certificate or the token has it; for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitAsk:
    """One agent request. Amounts are milliCPU and bytes; with `slots`, memory of all three counts slots instead.

    A slot's size is the pod's, so `controllers.permits` multiplies. Fields of `asked` and `compute_unit` are > 0, of
    `last_permit` >= 0, and all are < 2^63: their sums and products need not fit a column.
    """

    key: PodKey
    version: int  #: on the wire: 5 (v3.0), 6 (v4.0), 7 (v5.0)
    asked: Amounts  #: the total wanted; less than reserved: the agent has already given back the rest
    last_permit: Amounts | None  #: what a scheduler, ours or another, last permitted; None before the first answer
    compute_unit: Amounts | None  #: None (v3.0 only): the configured one
    load: Load | None
    slots: bool  #: memory counts slots (v3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitAnswer:
    """What the pod may use. `permit` is milliCPU and bytes; the HTTP adapter divides by `slot_bytes` for agents that count
    slots."""

    permit: Amounts
    slot_bytes: int  #: > 0; `permit.memory` is a multiple of it for a VM whose agent counts slots
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
