"""Defines the Protocols by which loops and flows use the outside of the process, such as the API server and cloud providers.

Each Protocol has only what its callers need; `adapters` and the sandbox implement them.
"""

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from slackwater.model.effects import ApiEffect
from slackwater.model.events import Event, SourceEvent
from slackwater.model.history import PastOfObject, Remembered
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.nodegroups import GroupName, Instance, InstanceErrorKind, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal

Listed_co = TypeVar("Listed_co", covariant=True)

ProviderErrorKind = InstanceErrorKind | Literal["conflict", "limit", "gone", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one attempt of one API call.

    done: the object is as requested (also if it was so before). refused: the API server refuses, and another attempt would not
    help. again: nothing happened; try again, but not before `after_seconds` have passed. unknown: no answer came; the request
    may or may not have taken effect.

    `event` is an event for the state machine with the content of the answer, such as the pod that a GET returned or the end of
    a bind; None if there is none.
    """

    verdict: Literal["done", "refused", "again", "unknown"]
    code: int = 0  #: HTTP status; 0 where there was none
    detail: str = ""
    after_seconds: float = 0.0
    event: Event | None = None


class Writer(Protocol):
    """Carries out one effect by one API call, within `timeout_seconds`; None: the caller's cancel scope bounds the time.

    Never raises because of the API server's answer.
    """

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome: ...


class Readiness(Protocol):
    """Says whether all event sources have been listed once (`ready`), and which have not (`unlisted`)."""

    @property
    def ready(self) -> bool: ...

    @property
    def unlisted(self) -> Sequence[str]: ...


class EventSource(Protocol):
    """Yields the events of one resource type, in order, without gaps or duplicates, beginning with a list of all objects.

    Iterate it within `contextlib.aclosing`, so that its connection ends with the loop. The first batch with `listed` set ends
    the first list; each later relist ends with one too.
    """

    def batches(self) -> AsyncGenerator["Batch", None]: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that belong together; `listed` is set on the last batch of a list."""

    events: Sequence[SourceEvent]
    listed: bool = False


class PermitServing(Protocol):
    """Answers agents' requests for permits. Returns an awaitable only if the answer has to wait for room or for a write.

    With `wait_seconds`, an increase for which there is no room yet is answered when room appears, or at the end of the wait
    with the room that exists then. A `caller` may ask only for pods of its own node, else it is refused (403); None: no such
    check. Never raises because of a request.
    """

    def ask(
        self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None
    ) -> PermitAnswer | PermitRefusal | Awaitable[PermitAnswer | PermitRefusal]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReview:
    """The API server's review of a bearer token.

    known: the token belongs to `user`, and is bound to a Pod on `node` ("" if it is bound to no Pod). unknown: the token is not
    valid. unasked: no answer came, so nothing is known.
    """

    verdict: Literal["known", "unknown", "unasked"]
    user: str = ""
    node: str = ""
    detail: str = ""


class TokenReviewer(Protocol):
    """Asks the API server for the owner of a token, within `timeout_seconds`. Never raises because of its answer."""

    async def review(self, token: str, *, timeout_seconds: float) -> TokenReview: ...


class ProviderError(Exception):
    """A provider did not do what was requested. `group` is None if the error concerns all groups.

    `kind` is as in `InstanceError`, or: conflict (the group is not as the call says), limit (the group would be smaller than
    its minimum or larger than its maximum), gone (there is no such group), unknown (no answer came before the timeout; the
    request may or may not take effect). After any other kind than `unknown`, a `grow` or `lower` has no effect, now or later.
    """

    def __init__(self, kind: ProviderErrorKind, group: GroupName | None, detail: str) -> None:
        super().__init__(kind, group, detail)
        self.kind, self.group, self.detail = kind, group, detail

    def __str__(self) -> str:
        return f"{'node groups' if self.group is None else f'node group {self.group}'}: {self.kind}: {self.detail}"


class GroupReader(Protocol):
    """Reads node groups. Every call ends within `timeout_seconds`, and raises `ProviderError` only."""

    @property
    def name(self) -> str: ...

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        """All groups in their present state, sorted by name. One that cannot be read is there too, as `NodeGroup.unreadable`
        says. Raises `ProviderError` if it is not known which groups there are."""
        ...


class NodeProvider(GroupReader, Protocol):
    """Creates and deletes the nodes of its groups too.

    Sizes are absolute, and each call includes the target size that its caller saw (`seen`). So a call that is repeated, or made
    with an outdated state, never makes a group grow twice: it fails with kind `conflict`, even if the target is already `to`.
    """

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Raises the target size to `to`, if it is still `seen`. `to` is more than `seen`."""
        ...

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Cancels nodes that do not exist yet: lowers the target size to `to`, if it is still `seen`. Deletes nothing: a `to`
        below the number of existing nodes is a conflict."""
        ...

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        """Deletes the instances and lowers the target size by their number. Does not drain their nodes. With `replace` the
        target size stays, and new machines come in place of these; a provider that cannot do that raises a `limit`.

        An instance that no longer exists, or is being deleted, is no error and does not lower the target. If an instance
        belongs to another group, the call is a conflict and deletes none. After any other error some may have been deleted; the
        same call may be repeated.
        """
        ...


#: The what-if questions, which can be asked about the present cluster or a supposed one.
Question = Literal["placement", "scale-up", "scale-down", "consolidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """The differences between the supposed cluster and the real one, in Kubernetes' terms, as the user wrote them.

    `objects` are added, or replace those of the same name. `remove` names objects to remove, by `kind`, `name` and, where there
    is one, `namespace`. `configuration` is merged into the current one. `accounting`: our accounting rules apply in addition to
    kube-scheduler's. `sequential` (only for placement): each pod is placed before the next one is judged.
    """

    objects: Sequence[Mapping[str, Any]] = ()
    remove: Sequence[Mapping[str, str]] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    accounting: bool = False
    sequential: bool = False


class WhatIfRefused(Exception):
    """A what-if question was refused: the message says what was found, and what is expected. `busy`: it cannot be answered at
    present, for example because other questions are being answered, so a later attempt may succeed."""

    def __init__(self, problem: str, *, busy: bool = False) -> None:
        super().__init__(problem)
        self.busy = busy


class WhatIf(Protocol):
    """Answers what-if questions about the present cluster state, changed as `Supposed` says. The answer is JSON, for placement
    one line for each pod.

    Changes nothing. Raises only `WhatIfRefused`.
    """

    async def __call__(self, question: Question, supposed: Supposed, /) -> bytes: ...


#: The objects that can be explained.
Explained = Literal["pod", "node", "group", "permit", "migration", "gate"]


class NothingThere(Exception):
    """The object to explain does not exist; the message names it."""


class Explain(Protocol):
    """Explains an object of the present cluster state. The answer is JSON. `namespace` is empty for objects without one.

    Changes nothing. Raises `NothingThere` if the object does not exist, and `WhatIfRefused` if it cannot be explained at
    present, for example because too many callers ask.
    """

    async def __call__(self, what: Explained, namespace: str, name: str, /) -> bytes: ...


#: The objects whose history can be asked for.


class HistoryQuery(Protocol):
    """Answers what happened to a pod, to a node, or in the cluster. `since_seconds`: how far back; None: as far as the history
    reaches. `namespace` is empty for nodes, the name too for the cluster. Never raises: the answer's notes say what could not
    be read."""

    async def __call__(self, what: Remembered, namespace: str, name: str, since_seconds: float | None, /) -> PastOfObject: ...


class ReportLog(Protocol):
    """Yields the log that `slackwater report` reads, in parts of whole lines: from `since_seconds` ago on, and what later lines
    rest on; None: all of it. Iterate it within `contextlib.aclosing`. Raises `NothingThere`, before the first part, if no log
    is written; the message says why."""

    def __call__(self, since_seconds: float | None, /) -> AsyncGenerator[bytes, None]: ...


class AuditReadError(Exception):
    """The API server did not return an object: it refused, did not answer before the timeout, or its answer cannot be
    decoded."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Listed_co]):
    """A part of a list. `version` is the resource version of the whole list. `unreadable` has the UID and name of each object
    that cannot be decoded, except of pods that have ended."""

    version: int
    objects: Sequence[Listed_co]
    unreadable: Sequence[tuple[str, str]] = ()


class AuditReads(Protocol):
    """Reads nodes and pods from the API server. Raises `AuditReadError` only. `timeout_seconds` applies to each API call.

    A list is yielded in parts, at least one, of which each takes a few milliseconds of work. Iterate it within
    `contextlib.aclosing`. `node` and `pod` return None if the object does not exist, or is a pod that has ended and cannot be
    decoded.
    """

    def nodes(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Node], None]: ...

    def pods(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Pod], None]: ...

    async def node(self, name: NodeName, *, timeout_seconds: float) -> Node | None: ...

    async def pod(self, key: PodKey, *, timeout_seconds: float) -> Pod | None: ...
