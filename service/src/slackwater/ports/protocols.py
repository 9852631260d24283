"""The outside world as the loops need it. The consumer owns the Protocol; `adapters` and the sandbox implement it."""

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
    """How one attempt of one API call ended.

    done: it is so now (also when it was so before). refused: it will not be; trying again would not help. again: try again,
    not sooner than `after_seconds`; nothing happened. unknown: no answer; it may have happened.
    `event` is what the call taught about the state machine (the pod that a GET returned, the end of a bind), or None.
    """

    verdict: Literal["done", "refused", "again", "unknown"]
    code: int = 0  #: HTTP status; 0 where there was none
    detail: str = ""
    after_seconds: float = 0.0
    event: Event | None = None


class Writer(Protocol):
    """Carries out one effect as one API call, within `timeout_seconds`, or None where the caller's own scope ends it.

    Never raises for what the API server answers.
    """

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome: ...


class Readiness(Protocol):
    """Says whether everything has been listed once, and what has not."""

    @property
    def ready(self) -> bool: ...

    @property
    def unlisted(self) -> Sequence[str]: ...


class EventSource(Protocol):
    """Events of one resource type, in order, without gap or double, from the first list on.

    Iterate it within `contextlib.aclosing`, so that its connection ends with the loop. The first batch whose `listed` is
    true ends the first list; each later relist ends with one too.
    """

    def batches(self) -> AsyncGenerator["Batch", None]: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that belong together; a relist's last batch has `listed` set."""

    events: Sequence[SourceEvent]
    listed: bool = False


class PermitServing(Protocol):
    """Answers agents. With `wait_seconds` an increase that has no room yet is answered when room appears, or at the end of the
    wait with what there is. A `caller` that is not None is refused (403) for pods of other nodes. Never raises over a question.

    Answers at once where nothing has to be waited for.
    """

    def ask(
        self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None
    ) -> PermitAnswer | PermitRefusal | Awaitable[PermitAnswer | PermitRefusal]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What the API server said of a bearer token.

    known: it belongs to `user`, and to a Pod on `node` ("" where it is bound to none). unknown: it belongs to nobody.
    unasked: no answer; nothing is known.
    """

    verdict: Literal["known", "unknown", "unasked"]
    user: str = ""
    node: str = ""
    detail: str = ""


class TokenReviewer(Protocol):
    """Asks the API server whose token it is, within `timeout_seconds`. Never raises for what it answers."""

    async def review(self, token: str, *, timeout_seconds: float) -> Reviewed: ...


class ProviderError(Exception):
    """A provider did not do what it was asked for. `group` is None where all of them are concerned.

    `kind` as in `InstanceError`, or: conflict (the group is not as the call says), limit (it would be smaller than its minimum
    or larger than its maximum), gone (there is no such group), unknown (no answer in time; it may have happened or not).
    After a `grow` or `lower` that ended in any other kind than `unknown` nothing has happened, nor will.
    """

    def __init__(self, kind: ProviderErrorKind, group: GroupName | None, detail: str) -> None:
        super().__init__(kind, group, detail)
        self.kind, self.group, self.detail = kind, group, detail

    def __str__(self) -> str:
        return f"{'node groups' if self.group is None else f'node group {self.group}'}: {self.kind}: {self.detail}"


class NodeProvider(Protocol):
    """Creates and deletes the nodes of its groups. Every call ends within `timeout_seconds`, and raises `ProviderError` only.

    Sizes are absolute, and say what was seen before: a call that is repeated, or that comes from a cluster state that is no
    longer true, never makes a group grow twice; it is a conflict, also where the target is `to` already.
    """

    @property
    def name(self) -> str: ...

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        """All groups as they are now, sorted by name. Raises rather than leave one out that it could not ask about."""
        ...

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Makes the target `to`, which is more than `seen`, if it still is `seen`."""
        ...

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        """Gives up on nodes that do not exist yet: makes the target `to`, if it still is `seen`. Deletes nothing: where `to`
        is less than what exists it is a conflict."""
        ...

    async def delete(self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float) -> None:
        """Deletes instances and lowers the target by their number. Nothing is drained here.

        An instance that is gone, or on its way out, is done: it lowers no target. One of another group is a conflict, and then
        none is deleted. After any other error some may be deleted; the same call may be made again.
        """
        ...


#: What may be asked of the cluster as it is, or as it would be.
Question = Literal["placement", "scale-up", "scale-down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """How the cluster is supposed to differ from what it is. Everything is as its user wrote it, in Kubernetes' own words.

    `objects` are there besides, or in place of those of their name. `remove` names what is not there: `kind`, `name`, and
    `namespace` where there is one. `configuration` is laid over the one in force. `accounting`: our own rules count too.
    `sequential` (placement alone): each pod stands on its place before the next is judged.
    """

    objects: Sequence[Mapping[str, Any]] = ()
    remove: Sequence[Mapping[str, str]] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    accounting: bool = False
    sequential: bool = False


class WhatIfRefused(Exception):
    """A question that has no answer: what of it was seen, and what is wanted. `busy`: none now, since others are answered."""

    def __init__(self, problem: str, *, busy: bool = False) -> None:
        super().__init__(problem)
        self.busy = busy


class WhatIf(Protocol):
    """Answers what-if on the present cluster state: JSON, for placement one line for each pod. It changes nothing. Raises
    `WhatIfRefused` only."""

    async def __call__(self, question: Question, supposed: Supposed, /) -> bytes: ...


#: What can be explained.
Explained = Literal["pod", "node", "group", "permit", "migration", "gate"]


class NothingThere(Exception):
    """What was asked about does not exist; the message names it."""


class Explain(Protocol):
    """Explains an object of the present cluster state, as JSON. It changes nothing. `namespace` is empty for what has none.

    Raises `NothingThere`, or `WhatIfRefused` where too many ask.
    """

    async def __call__(self, what: Explained, namespace: str, name: str, /) -> bytes: ...


class TruthUnknown(Exception):
    """The API server did not say how something is: refused, no answer in time, or nothing that can be read."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Listed_co]):
    """A part of a list: `version` is that of the whole list; `unreadable` are UID and name of objects that cannot be
    read."""

    version: int
    objects: Sequence[Listed_co]
    unreadable: Sequence[tuple[str, str]] = ()


class Truth(Protocol):
    """Nodes and pods as the API server has them. Raises `TruthUnknown` only. `timeout_seconds` is for each call it makes.

    Iterate a list within `contextlib.aclosing`; it comes in parts of a few ms of work, at least one.
    """

    def nodes(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Node], None]: ...

    def pods(self, *, timeout_seconds: float) -> AsyncGenerator[Listing[Pod], None]: ...

    async def node(self, name: NodeName, *, timeout_seconds: float) -> Node | None: ...

    async def pod(self, key: PodKey, *, timeout_seconds: float) -> Pod | None: ...
