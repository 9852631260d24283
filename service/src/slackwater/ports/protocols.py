"""The outside of the process, as the loops need it. The consumer owns each Protocol; `adapters` and the sandbox implement
it."""

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from slackwater.model.effects import ApiEffect
from slackwater.model.events import Event, SourceEvent
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
    help. again: nothing happened; try again, not sooner than `after_seconds`. unknown: no answer came; it may have happened.
    `event` is what the call showed, as an event for the state machine (the pod that a GET returned, the end of a bind), or
    None.
    """

    verdict: Literal["done", "refused", "again", "unknown"]
    code: int = 0  #: HTTP status; 0 where there was none
    detail: str = ""
    after_seconds: float = 0.0
    event: Event | None = None


class Writer(Protocol):
    """Carries out one effect as one API call, within `timeout_seconds`; None: the caller's cancel scope ends it.

    Never raises because of what the API server answers.
    """

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome: ...


class Readiness(Protocol):
    """Says whether everything has been listed once, and what has not."""

    @property
    def ready(self) -> bool: ...

    @property
    def unlisted(self) -> Sequence[str]: ...


class EventSource(Protocol):
    """Events of one resource type, in order, without gaps or duplicates, from the first list on.

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
    """Answers agents' requests, at once where no wait is needed.

    With `wait_seconds`, an increase that has no room yet is answered when room appears, or at the end of the wait with the room
    that exists then. A `caller` that is not None is refused (403) for pods of other nodes. Never raises because of a request.
    """

    def ask(
        self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None
    ) -> PermitAnswer | PermitRefusal | Awaitable[PermitAnswer | PermitRefusal]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReview:
    """The API server's review of a bearer token.

    known: the token belongs to `user`, and to a Pod on `node` ("" where it is bound to none). unknown: it belongs to nobody.
    unasked: no answer came; nothing is known.
    """

    verdict: Literal["known", "unknown", "unasked"]
    user: str = ""
    node: str = ""
    detail: str = ""


class TokenReviewer(Protocol):
    """Asks the API server for the owner of a token, within `timeout_seconds`. Never raises because of what the API server
    answers."""

    async def review(self, token: str, *, timeout_seconds: float) -> TokenReview: ...


class ProviderError(Exception):
    """A provider did not do what was requested. `group` is None where all groups are concerned.

    `kind` is as in `InstanceError`, or: conflict (the group is not as the call says), limit (the group would be smaller than
    its minimum or larger than its maximum), gone (there is no such group), unknown (no answer came in time; it may have
    happened or not). After a `grow` or `lower` that ended in any other kind than `unknown`, nothing has happened and nothing
    will.
    """

    def __init__(self, kind: ProviderErrorKind, group: GroupName | None, detail: str) -> None:
        super().__init__(kind, group, detail)
        self.kind, self.group, self.detail = kind, group, detail

    def __str__(self) -> str:
        return f"{'node groups' if self.group is None else f'node group {self.group}'}: {self.kind}: {self.detail}"


class NodeProvider(Protocol):
    """Creates and deletes the nodes of its groups. Every call ends within `timeout_seconds`, and raises `ProviderError` only.

    Sizes are absolute, and calls include the size that was seen before. So a call that is repeated, or that rests on an
    outdated state, never makes a group grow twice; it is a conflict, also where the target is `to` already.
    """

    @property
    def name(self) -> str: ...

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        """All groups as they are now, sorted by name. Raises if it cannot read one, and never leaves one out."""
        ...

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Sets the target to `to`, which is more than `seen`, if it still is `seen`."""
        ...

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Gives up nodes that do not exist yet: sets the target to `to`, if it still is `seen`. It deletes nothing: a `to`
        below the number of existing nodes is a conflict."""
        ...

    async def delete(self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float) -> None:
        """Deletes instances and lowers the target by their number. It does not drain their nodes.

        An instance that is gone, or being deleted, counts as done and lowers no target. An instance of another group is a
        conflict, and then none is deleted. After any other error some may be deleted; the same call may be made again.
        """
        ...


#: The what-if questions about the cluster as it is, or as it would be.
Question = Literal["placement", "scale-up", "scale-down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """The differences between the supposed cluster and the real one, in Kubernetes' terms, as the user wrote them.

    `objects` are added, or replace those of the same name. `remove` names objects that are taken away: `kind`, `name`, and
    `namespace` where there is one. `configuration` is merged over the current one. `accounting`: our accounting rules apply
    too. `sequential` (placement alone): each pod is placed before the next is judged.
    """

    objects: Sequence[Mapping[str, Any]] = ()
    remove: Sequence[Mapping[str, str]] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    accounting: bool = False
    sequential: bool = False


class WhatIfRefused(Exception):
    """A what-if question was refused: the message says what was found, and what is expected. `busy`: other questions are being
    answered, so a later attempt may succeed."""

    def __init__(self, problem: str, *, busy: bool = False) -> None:
        super().__init__(problem)
        self.busy = busy


class WhatIf(Protocol):
    """Answers what-if questions on the present cluster state: JSON, for placement one line for each pod.

    It changes nothing. It raises `WhatIfRefused` only.
    """

    async def __call__(self, question: Question, supposed: Supposed, /) -> bytes: ...


#: The objects that can be explained.
Explained = Literal["pod", "node", "group", "permit", "migration", "gate"]


class NothingThere(Exception):
    """The object to explain does not exist; the message names it."""


class Explain(Protocol):
    """Explains an object of the present cluster state, as JSON. It changes nothing. `namespace` is empty for objects without
    one.

    It raises `NothingThere`, or `WhatIfRefused` if too many callers ask.
    """

    async def __call__(self, what: Explained, namespace: str, name: str, /) -> bytes: ...


#: The objects whose history can be asked for.
Remembered = Literal["pod", "node"]


class HistoryQuery(Protocol):
    """Answers what happened to a pod or a node, as JSON values. `since_seconds`: not further back than that; None: as far as
    the history reaches. `namespace` is empty for nodes. Never raises: what cannot be read now is said in the answer's notes."""

    async def __call__(self, what: Remembered, namespace: str, name: str, since_seconds: float | None, /) -> dict[str, Any]: ...


class AuditReadError(Exception):
    """The API server did not return an object: it refused, gave no answer in time, or returned nothing that can be read."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Listed_co]):
    """A part of a list. `version` is that of the whole list; `unreadable` are UID and name of objects that cannot be read."""

    version: int
    objects: Sequence[Listed_co]
    unreadable: Sequence[tuple[str, str]] = ()


class AuditReads(Protocol):
    """Reads nodes and pods from the API server. Raises `AuditReadError` only. `timeout_seconds` applies to each API call.

    Iterate a list within `contextlib.aclosing`. It comes in parts, at least one, and each takes a few ms of work.
    """

    def nodes(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Node], None]: ...

    def pods(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Pod], None]: ...

    async def node(self, name: NodeName, *, timeout_seconds: float) -> Node | None: ...

    async def pod(self, key: PodKey, *, timeout_seconds: float) -> Pod | None: ...
