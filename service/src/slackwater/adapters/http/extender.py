"""The extender listener's application: answers kube-scheduler's filter, prioritize, bind and preempt from the state machine.

`http_server` passes whole bodies and takes whole answers. A well-formed request is answered with 200, a refusal is in `Error`,
since kube-scheduler drops the text of any other status (docs/extender.md, T3). Malformed requests get 400, 404, 405 or 413 with
the same `Error`, overload and startup 503; none of them changes the state.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from slackwater.adapters.http import extender_messages
from slackwater.adapters.http.application import RETRY_SOON, Answer, BodyBudget, Headers, Request, RequestTerms
from slackwater.adapters.http.extender_messages import MetaPod
from slackwater.adapters.http.node_names import RequestNodesDecoder, gated_answer
from slackwater.adapters.http.request_queue import Overloaded, RequestQueue
from slackwater.controllers.permits.service import PermitService
from slackwater.controllers.placement.loop import FilterNodeChooser
from slackwater.model.columns import Rows
from slackwater.model.histogram import Spread
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.ports.metric_families import counter, histogram
from slackwater.ports.protocols import Outcome, Readiness
from slackwater.ports.threads import in_thread
from slackwater.runtime.dispatcher import Dispatcher
from slackwater.runtime.filter_backpressure import FilterBackpressure
from slackwater.runtime.state_machine import StateMachine

VERBS: Final = ("filter", "prioritize", "bind", "preempt")
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BYTES: Final = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6)


class ExtenderMetrics(Collector):
    """Prometheus metrics of the extender listener: requests by verb and HTTP status, with histograms of their time and body
    size.

    Every series of the known verbs exists from the start. Values are counted in plain numbers and collected at scrape: the
    client library's own counters would take three locks a call.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        verbs = (*VERBS, "other")
        self._requests = {(verb, 200): 0 for verb in VERBS}
        self._seconds = {verb: Spread(_SECONDS) for verb in verbs}
        self._sizes = {verb: Spread(_BYTES) for verb in verbs}
        registry.register(self)

    def observe(self, verb: str, status: int, size: int, seconds: float) -> None:
        self._requests[verb, status] = self._requests.get((verb, status), 0) + 1
        self._seconds[verb].note(seconds)
        self._sizes[verb].note(size)

    def collect(self) -> Iterator[Metric]:
        requests = {(verb, str(status)): count for (verb, status), count in self._requests.items()}
        meaning = "Extender requests answered, by verb and HTTP status."
        yield counter("slackwater_extender_requests", meaning, requests, "verb", "code")
        meaning = "Time from the whole request to its answer."
        yield histogram("slackwater_extender_request_duration_seconds", meaning, self._seconds, "verb")
        yield histogram("slackwater_extender_request_size_bytes", "Size of request bodies.", self._sizes, "verb")


_log = structlog.get_logger(__name__)

_TEXT: Final = [reason.text for reason in Reason]
_PREFIX: Final = "/scheduler/"
_NO_ROWS: Final[Rows] = np.empty(0, np.intp)
#: The verb under which metrics count requests to any other path.
_OTHER: Final = "other"
#: Limit of a resource version's length: an unsigned 64-bit number has at most twenty digits.
_MOST_DIGITS: Final = 20
#: The verb that does not queue: a pod with a chosen node must not wait for pods without one.
_FIRST: Final = "bind"
#: The JSON of a larger pod is decoded in a thread.
_LARGE_BYTES: Final = 64 * 1024
#: Limit of all kept bodies together, as a multiple of the limit of one.
_BODIES: Final = 4
#: Enough for the whole Nodes of a cluster of 5,000.
_MAX_BODY_BYTES: Final = 64 << 20

_Found = bytes | Awaitable[bytes]


class ExtenderApp:
    """The application of the extender listener."""

    def __init__(
        self,
        *,
        state_machine: StateMachine,
        submitter: Dispatcher,
        binds: PermitService,
        readiness: Readiness,
        decode_pod: Callable[[bytes], Pod],
        clock: Callable[[], Instant],
        metrics: ExtenderMetrics,
        max_body_bytes: int = _MAX_BODY_BYTES,
        backpressure: FilterBackpressure | None = None,
        choice: FilterNodeChooser | None = None,
        wait_seconds: float = 4.0,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`submitter` sends granted binds to the API server, `binds` says whether one may be sent yet, `backpressure` delays
        filter's answers while binds queue, `choice` chooses one node for filter's answer.

        `wait_seconds`: how long a request may queue; kube-scheduler's own timeout is a little longer. `stopwatch` is the
        clock, in seconds, that measures how long a request occupies the event loop."""
        self._state_machine = state_machine
        self._submitter = submitter
        self._binds = binds
        self._readiness = readiness
        self._backpressure = backpressure
        self._choice = choice
        self._decode_pod = decode_pod
        self._clock = clock
        self._metrics = metrics
        self.terms = RequestTerms(max_body_bytes=max_body_bytes, bodies=BodyBudget(_BODIES * max_body_bytes))
        self._request_queue = RequestQueue[_Found](wait_seconds=wait_seconds, clock=stopwatch)
        self._asked = RequestNodesDecoder(state_machine.state.nodes)
        self._verbs: Final[Mapping[str, tuple[str, Callable[[bytes], bytes | Awaitable[bytes]]]]] = {
            f"{_PREFIX}filter": ("filter", self._filter),
            f"{_PREFIX}prioritize": ("prioritize", self._prioritize),
            f"{_PREFIX}bind": ("bind", self._bind),
            f"{_PREFIX}preempt": ("preempt", self._preempt),
        }

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Returns the answer; an awaitable if the request queues, is delayed, or is a bind (which the API server answers)."""
        started = time.perf_counter()
        path, body = request.path, request.body
        verb, ask = self._verbs.get(path, (_OTHER, None))
        if ask is None:
            answer = _error(404, f"{path}: want one of {', '.join(self._verbs)}")
        elif request.method != "POST":
            answer = _error(405, f"{request.method} {path}: want POST", headers=((b"allow", b"POST"),))
        elif not self._readiness.ready:
            answer = _error(503, f"not ready: waiting for the first list of {', '.join(self._readiness.unlisted)}")
        else:
            try:
                found = ask(body) if verb == _FIRST else self._in_turn(partial(ask, body))
            except Exception as error:
                answer = _failed(verb, error)
            else:
                if not isinstance(found, bytes):
                    return self._answer_later(verb, found, len(body), started)
                answer = Answer(200, found)
        self._metrics.observe(verb, answer.status, len(body), time.perf_counter() - started)
        return answer

    def _in_turn(self, question: "Callable[[], _Found]") -> "_Found":
        if self._request_queue.free:
            return self._request_queue.now(question)
        return _finally(self._request_queue.queued(question))

    async def _answer_later(self, verb: str, pending: Awaitable[bytes], size: int, started: float) -> Answer:
        try:
            answer = Answer(200, await pending)
        except Exception as error:
            answer = _failed(verb, error)
        self._metrics.observe(verb, answer.status, size, time.perf_counter() - started)
        return answer

    def refusal(self, status: int, path: str, message: str) -> Answer:
        """Returns the error answer to a request whose body was left unread, such as one that is too large."""
        verb, _ = self._verbs.get(path, (_OTHER, None))
        self._metrics.observe(verb, status, 0, 0.0)
        return _error(status, message)

    # --- the pod of a request ---------------------------------------------------------------------------------------------

    def _with_pod(self, raw: bytes, answer: Callable[[Pod], _Found]) -> _Found:
        """Answers with the pod of a request: as the watch has shown it, or as decoded from `raw` if that is newer or the only
        one.

        `raw` is kube-scheduler's cached copy of the pod, which may be older than ours (docs/extender.md, T16).
        """
        known = self._known(raw)
        if known is not None:
            return answer(known)
        return answer(self._decoded(raw)) if len(raw) <= _LARGE_BYTES else self._with_large_pod(raw, answer)

    async def _with_large_pod(self, raw: bytes, answer: Callable[[Pod], _Found]) -> bytes:
        pod = await in_thread(partial(self._decoded, raw))
        return await _finally(self._in_turn(lambda: answer(self._known(raw) or pod)))

    def _known(self, raw: bytes) -> Pod | None:
        """The pod as the watch has shown it, unless `raw` is newer."""
        meta = extender_messages.head(raw, "Pod")
        known = self._state_machine.state.pods.get(PodUid(meta.uid))
        return known if known is not None and known.resource_version >= _version(meta.resourceVersion) else None

    def _decoded(self, raw: bytes) -> Pod:
        try:
            pod = self._decode_pod(raw)
        except (ValueError, RecursionError) as error:
            raise extender_messages.BadRequest(f"Pod: {error}") from error
        if not pod.uid or not pod.key.namespace:
            raise extender_messages.BadRequest("Pod.metadata: uid and namespace wanted")
        return pod

    # --- verbs ------------------------------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> _Found:
        args = extender_messages.placing_args(body)
        if self._backpressure is not None and self._backpressure.due():
            return self._filtered_later(args, self._backpressure)
        return self._with_pod(args.Pod, partial(self._filtered, args))

    async def _filtered_later(self, args: extender_messages.PlacingArgs, backpressure: FilterBackpressure) -> bytes:
        await backpressure.wait()
        return await _finally(self._in_turn(lambda: self._with_pod(args.Pod, partial(self._filtered, args))))

    def _filtered(self, args: extender_messages.PlacingArgs, pod: Pod) -> bytes:
        if self._state_machine.preemptions.gated(pod.uid) and (answer := gated_answer(args.NodeNames)) is not None:
            self._state_machine.filter(pod, _NO_ROWS, self._clock())
            return answer
        asked = self._asked.of(args)
        chosen = None if self._choice is None else self._choice.of(pod, asked.rows)
        if chosen is not None:
            return asked.only(chosen)
        codes = self._state_machine.filter(pod, asked.rows, self._clock())
        if (codes == Reason.NODE_NOT_CHOSEN).any():
            return asked.only(int(codes.argmin()))  # the chosen node has `Reason.OK`, the smallest code
        gated = gated_answer(args.NodeNames) if self._state_machine.preemptions.gated(pod.uid) else None
        return asked.filtered(codes, _texts_about(pod)) if gated is None else gated

    def _prioritize(self, body: bytes) -> _Found:
        args = extender_messages.placing_args(body)
        asked = self._asked.of(args)

        def scored(pod: Pod) -> bytes:
            return asked.prioritized(self._state_machine.prioritize(pod, asked.rows, self._clock()))

        return self._with_pod(args.Pod, scored)

    async def _bind(self, body: bytes) -> bytes:
        args = extender_messages.binding_args(body)
        key = PodKey(args.PodNamespace, args.PodName)
        answer = self._state_machine.bind(PodUid(args.PodUID), key, NodeName(args.Node), self._clock())
        if answer.reason is not Reason.OK:
            return _bind_answer(f"{answer.reason.text} (pod {key}, node {args.Node})")
        if answer.effect is None:
            return _bind_answer("")
        if not await self._binds.may_bind(answer.effect.uid, answer.effect.node, first=not answer.already):
            return _bind_answer(f"{Reason.ROOM_NOT_ON_RECORD.text} (pod {key}, node {args.Node})")
        outcome = await self._submitter.submit(answer.effect).ended()
        return _bind_answer("" if outcome.verdict == "done" else _why_not_bound(outcome, key, args.Node))

    def _preempt(self, body: bytes) -> _Found:
        args = extender_messages.preemption_args(body)
        proposed, violations = _proposed(args)

        def answered(pod: Pod) -> bytes:
            kept = self._state_machine.preempt(pod, proposed, self._clock())
            victims: dict[str, extender_messages.MetaVictims] = {
                name: extender_messages.MetaVictims([extender_messages.MetaPod(uid) for uid in uids], violations[name] + more)
                for name, (uids, more) in kept.items()
            }
            return extender_messages.encode(extender_messages.PreemptionResult(victims))

        return self._with_pod(args.Pod, answered)


def _texts_about(pod: Pod) -> Sequence[str]:
    """The texts of all reasons, indexed by `Reason`. The text for a missing resource request names the pod's container."""
    if pod.kind.missing_request is None:
        return _TEXT
    texts = list(_TEXT)
    texts[Reason.MISSING_REQUEST] = f"Slackwater: container {pod.kind.missing_request} has no request"
    return texts


def _proposed(args: extender_messages.PreemptionArgs) -> tuple[dict[NodeName, list[PodUid]], dict[NodeName, int]]:
    """Reads kube-scheduler's candidates: returns the victims of each node, and the number of PDB violations of each node.

    A request has one of two maps: victims by UID, or victims as whole pods.
    """
    proposed: dict[NodeName, list[PodUid]] = {}
    violations: dict[NodeName, int] = {}
    given = args.NodeNameToVictims if args.NodeNameToMetaVictims is None else args.NodeNameToMetaVictims
    for name, victims in (given or {}).items():
        pods = (victims.Pods if victims else None) or ()
        proposed[NodeName(name)] = [PodUid(pod.UID if isinstance(pod, MetaPod) else pod.metadata.uid) for pod in pods]
        violations[NodeName(name)] = victims.NumPDBViolations if victims else 0
    return proposed, violations


def _why_not_bound(outcome: Outcome, key: PodKey, node: str) -> str:
    reason = Reason.API_REFUSED if outcome.verdict == "refused" else Reason.API_UNREACHABLE
    return f"{reason.text}: {outcome.detail} (pod {key}, node {node})"


def _bind_answer(error: str) -> bytes:
    return extender_messages.encode(extender_messages.ErrorAnswer(error))


def _version(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _error(status: int, message: str, *, headers: Headers = ()) -> Answer:
    return Answer(status, extender_messages.encode(extender_messages.ErrorAnswer(message)), headers=headers)


async def _finally(found: "_Found | Awaitable[_Found]") -> bytes:
    while not isinstance(found, bytes):
        found = await found
    return found


def _failed(verb: str, error: Exception) -> Answer:
    if isinstance(error, Overloaded):
        return _error(503, f"overloaded: {error}", headers=RETRY_SOON)
    if isinstance(error, extender_messages.BadRequest):
        return _error(400, str(error))
    _log.error("extender call failed", verb=verb, exc_info=error)
    return _error(500, f"{type(error).__name__} while answering {verb}; the service's log has the details")
