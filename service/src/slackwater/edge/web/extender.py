"""The extender listener: kube-scheduler's filter, prioritize, bind and preempt, answered from the world.

A raw ASGI application: routing and body handling of a framework would cost more than the decisions. A well-formed question
is always answered with 200; what we refuse stands in `Error`, since kube-scheduler shows nothing of any other answer (trap T3).
Malformed ones get 400, 404, 405 or 413 and the same `Error`, and change nothing.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import structlog

from slackwater.decide.placement.scores import MAX_EXTENDER_SCORE
from slackwater.edge.web import wire
from slackwater.edge.web.extender_metrics import ExtenderMetrics
from slackwater.model.columns import Codes, Mask
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.run.dispatcher import Ticket
from slackwater.run.ports import Outcome
from slackwater.world.world import World

_log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_TEXT: Final = [MEANINGS[reason].text for reason in Reason]
_RESOLVABLE: Final = [MEANINGS[reason].resolvable for reason in Reason]
_PREFIX: Final = "/scheduler/"
#: How an entry of prioritize's answer ends, by score.
_SCORE_ENDS: Final = [b'","Score":%d}' % score for score in range(MAX_EXTENDER_SCORE + 1)]
#: Of a resource version: an unsigned 64-bit number has twenty.
_MOST_DIGITS: Final = 20


class Submitter(Protocol):
    """Takes the effect of a granted bind; the ticket tells its end."""

    def submit(self, effect: Any) -> Ticket: ...


class Readiness(Protocol):
    """Has everything been listed once?"""

    @property
    def ready(self) -> bool: ...

    @property
    def unlisted(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and JSON body. `refused` counts an answer of 200 that says no."""

    status: int
    body: bytes


class Extender:
    """The ASGI application of the extender listener."""

    def __init__(
        self,
        *,
        world: World,
        submitter: Submitter,
        readiness: Readiness,
        decode_pod: Callable[[bytes], Pod],
        clock: Callable[[], Instant],
        metrics: ExtenderMetrics,
        max_body_bytes: int,
    ) -> None:
        self._world = world
        self._submitter = submitter
        self._readiness = readiness
        self._decode_pod = decode_pod
        self._clock = clock
        self._metrics = metrics
        self.max_body_bytes = max_body_bytes
        self._verbs: Final[Mapping[str, Callable[[bytes], bytes | Awaitable[bytes]]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "bind": self._bind,
            "preempt": self._preempt,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        verb = scope["path"].removeprefix(_PREFIX)
        known = verb in self._verbs and scope["path"].startswith(_PREFIX)
        body: bytes | None = b""
        if not known:
            answer = _error(404, f"{scope['path']}: want one of {', '.join(_PREFIX + v for v in self._verbs)}")
        elif scope["method"] != "POST":
            answer = _error(405, f"{scope['method']} {scope['path']}: want POST")
        elif (body := await self._body(scope, receive)) is None:
            answer = _error(413, f"body: more than {self.max_body_bytes} bytes (extender.maxBodyBytes)")
        else:
            answer = await self._answer(verb, body)
        await _respond(send, answer)
        self._metrics.observe(verb if known else "other", answer.status, len(body or b""), time.perf_counter() - started)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, or None if it is larger than allowed: then the rest is not read."""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > self.max_body_bytes:
            return None
        chunks, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b""
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_body_bytes:
                return None
            chunks.append(chunk)
            if not message.get("more_body"):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _answer(self, verb: str, body: bytes) -> Answer:
        if not self._readiness.ready:
            return _error(503, f"not ready: waiting for the first list of {', '.join(self._readiness.unlisted)}")
        try:
            answer = self._verbs[verb](body)
            return Answer(200, answer if isinstance(answer, bytes) else await answer)
        except wire.BadRequest as error:
            return _error(400, str(error))
        except Exception as error:
            _log.exception("extender call failed", verb=verb)
            return _error(500, f"{type(error).__name__} while answering {verb}; the service's log has the details")

    # --- the pod of a question --------------------------------------------------------------------------------------------

    def _pod(self, raw: bytes) -> Pod:
        """The watch's pod where it is not older than the question's: that one is the scheduler's cached copy (trap T16)."""
        meta = wire.head(raw, "Pod")
        known = self._world.pods.get(PodUid(meta.uid))
        if known is not None and known.resource_version >= _version(meta.resourceVersion):
            return known
        try:
            pod = self._decode_pod(raw)
        except (ValueError, msgspec.DecodeError) as error:
            raise wire.BadRequest(f"Pod: {error}") from error
        if not pod.uid or not pod.key.namespace:
            raise wire.BadRequest("Pod.metadata: uid and namespace wanted")
        return pod

    # --- verbs ------------------------------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> bytes:
        args = wire.placing_args(body)
        pod = self._pod(args.Pod)
        asked = _Asked.of(args)
        codes = self._world.filter(pod, self._world.nodes.rows_of_utf8(asked.names), self._clock())
        return asked.filtered(codes, _texts_about(pod))

    def _prioritize(self, body: bytes) -> bytes:
        args = wire.placing_args(body)
        names = _Asked.of(args).names
        scores = self._world.prioritize(self._pod(args.Pod), self._world.nodes.rows_of_utf8(names))
        if not names:
            return b"[]"
        # All in C: formatting 5,000 entries one by one takes longer than everything else together.
        ends = map(_SCORE_ENDS.__getitem__, scores.tolist())
        return b'[{"Host":"%b]' % b',{"Host":"'.join(map(bytes.__add__, names, ends))

    async def _bind(self, body: bytes) -> bytes:
        args = wire.binding_args(body)
        key = PodKey(args.PodNamespace, args.PodName)
        answer = self._world.bind(PodUid(args.PodUID), key, NodeName(args.Node), self._clock())
        if answer.reason is not Reason.OK:
            return _bind_answer(f"{MEANINGS[answer.reason].text} (pod {key}, node {args.Node})")
        if answer.effect is None:
            return _bind_answer("")
        outcome = await self._submitter.submit(answer.effect).ended()
        return _bind_answer("" if outcome.verdict == "done" else _why_not_bound(outcome, key, args.Node))

    def _preempt(self, body: bytes) -> bytes:
        args = wire.preemption_args(body)
        proposed, violations = _proposed(args)
        kept = self._world.preempt(self._pod(args.Pod), proposed, self._clock())
        return wire.encode(
            wire.PreemptionResult(
                {
                    name: wire.MetaVictims([wire.MetaPod(uid) for uid in uids], violations[name] + more)
                    for name, (uids, more) in kept.items()
                }
            )
        )


class _Asked:
    """The nodes of a question, by name or whole; both are answered in kind (`nodeCacheCapable` true and false).

    Names stay as they stand between their quotes in the question, and go into the answer as they are.
    """

    def __init__(self, names: list[bytes], raw_names: bytes | None, items: list[msgspec.Raw]) -> None:
        self.names = names
        self._raw_names = raw_names
        self._items = items

    @classmethod
    def of(cls, args: wire.PlacingArgs) -> "_Asked":
        if args.NodeNames != wire.NULL:
            raw = bytes(args.NodeNames)
            return cls(wire.names(raw), raw, [])
        items = wire.node_items(args.Nodes)
        return cls([wire.encode(wire.head(item, "Nodes.items[]").name)[1:-1] for item in items], None, items)

    def filtered(self, codes: Codes, texts: Sequence[str]) -> bytes:
        """The answer to filter: every node that does not pass is named with its reason (trap T17)."""
        failed: list[bytes] = []
        unresolvable: list[bytes] = []
        for code in np.unique(codes).tolist():
            if code != Reason.OK:
                text = wire.encode(texts[code])
                names = b'":%b,"' % text
                entries = b'"%b":%b' % (names.join(compress(self.names, _mask(codes == code))), text)
                (failed if _RESOLVABLE[code] else unresolvable).append(entries)
        return b'{%b,"FailedNodes":{%b},"FailedAndUnresolvableNodes":{%b},"Error":""}' % (
            self._passing(codes),
            b",".join(failed),
            b",".join(unresolvable),
        )

    def _passing(self, codes: Codes) -> bytes:
        mask = _mask(codes == Reason.OK)
        if self._raw_names is None:
            return b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % b",".join(map(bytes, compress(self._items, mask)))
        if not codes.any():  # the names go back as they came
            return b'"Nodes":null,"NodeNames":%b' % self._raw_names
        passing = b'","'.join(compress(self.names, mask))
        return b'"Nodes":null,"NodeNames":%b' % (b'["%b"]' % passing if passing else b"[]")


def _mask(selected: Mask) -> bytes:
    """Selectors for `compress`: iterating bytes makes no Python object for each row."""
    return selected.tobytes()


def _texts_about(pod: Pod) -> Sequence[str]:
    """Reason texts; a missing request is named (one pod, so one text for all its nodes)."""
    if pod.kind.missing_request is None:
        return _TEXT
    texts = list(_TEXT)
    texts[Reason.MISSING_REQUEST] = f"Slackwater: container {pod.kind.missing_request} has no request"
    return texts


def _proposed(args: wire.PreemptionArgs) -> tuple[dict[NodeName, list[PodUid]], dict[NodeName, int]]:
    """Victims and PDB violations by node, whichever of the two maps came."""
    proposed: dict[NodeName, list[PodUid]] = {}
    violations: dict[NodeName, int] = {}
    if args.NodeNameToMetaVictims is not None:
        for name, meta in args.NodeNameToMetaVictims.items():
            proposed[NodeName(name)] = [PodUid(pod.UID) for pod in (meta.Pods if meta else None) or ()]
            violations[NodeName(name)] = meta.NumPDBViolations if meta else 0
        return proposed, violations
    for name, victims in (args.NodeNameToVictims or {}).items():
        proposed[NodeName(name)] = [PodUid(pod.metadata.uid) for pod in (victims.Pods if victims else None) or ()]
        violations[NodeName(name)] = victims.NumPDBViolations if victims else 0
    return proposed, violations


def _why_not_bound(outcome: Outcome, key: PodKey, node: str) -> str:
    reason = Reason.API_REFUSED if outcome.verdict == "refused" else Reason.API_UNREACHABLE
    return f"{MEANINGS[reason].text}: {outcome.detail} (pod {key}, node {node})"


def _bind_answer(error: str) -> bytes:
    return wire.encode(wire.ErrorAnswer(error))


def _version(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _error(status: int, message: str) -> Answer:
    return Answer(status, wire.encode(wire.ErrorAnswer(message)))


async def _respond(send: Send, answer: Answer) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.body))]
    if answer.status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
