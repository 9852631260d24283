"""Calls an extender for the embedded scheduler, with requests and answers as in kube-scheduler's extender.go."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
import msgspec

from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.queue import PodObservation

#: Calls a verb of the extender with this body. Returns the status and body of the answer; raises `ConnectionLost` if none came.
Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
_OK: Final = 200
_TIMEOUT_SECONDS: Final = 5.0


class ExtenderError(Exception):
    """The call failed: no answer before the timeout, a status other than 200, `Error` set, or an impossible answer."""


class ConnectionLost(ConnectionError):
    """The connection was lost before the answer came."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The extender's answer to filter: the feasible nodes (`passed`) in its order, and the nodes where preemption might help
    (`resolvable`)."""

    passed: list[str]
    resolvable: frozenset[str]


class ExtenderClient:
    """Calls the extender's four verbs with node names (`nodeCacheCapable`). Each call ends within five seconds. `calls`
    and `errors` count by verb."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.calls: dict[str, int] = {}
        self.errors: dict[str, int] = {}

    async def filter(self, pod: PodObservation, nodes: Sequence[str]) -> Filtered:
        """Asks which of the nodes are feasible for the pod. Raises `ExtenderError`."""
        answer = await self._call("filter", self._placing(pod, nodes))
        if answer.get("Error"):
            raise ExtenderError(f"filter: {answer['Error']}")
        passed = list(answer.get("NodeNames") or ())
        if not set(passed) <= set(nodes):
            raise ExtenderError(f"filter: unknown nodes {sorted(set(passed) - set(nodes))}")
        hopeless = answer.get("FailedAndUnresolvableNodes") or {}
        return Filtered(passed, frozenset((answer.get("FailedNodes") or {}).keys() - hopeless.keys()))

    async def prioritize(self, pod: PodObservation, nodes: Sequence[str]) -> dict[str, int]:
        """The extender's score of each node. Empty after an error, which kube-scheduler also ignores."""
        try:
            answer = await self._call("prioritize", self._placing(pod, nodes))
        except ExtenderError:
            return {}
        return (
            {found["Host"]: found["Score"] for found in answer if isinstance(found, dict)} if isinstance(answer, list) else {}
        )

    async def bind(self, pod: PodObservation, node: str) -> None:
        """Asks the extender to bind the pod to the node. Raises `ExtenderError`."""
        args = {"PodName": pod.key[1], "PodNamespace": pod.key[0], "PodUID": pod.uid, "Node": node}
        answer = await self._call("bind", msgspec.json.encode(args))
        if answer.get("Error"):
            raise ExtenderError(f"bind: {answer['Error']}")

    async def preempt(self, pod: PodObservation, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Asks which of the proposed candidates remain. Returns the UIDs of the victims by node. Raises `ExtenderError`."""
        proposed = {node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()}
        args = {"Pod": msgspec.Raw(pod.raw), "NodeNameToVictims": None, "NodeNameToMetaVictims": proposed}
        answer = await self._call("preempt", msgspec.json.encode(args))
        kept = answer.get("NodeNameToMetaVictims") or {}
        return {node: [found["UID"] for found in (meta or {}).get("Pods") or ()] for node, meta in kept.items()}

    def _placing(self, pod: PodObservation, nodes: Sequence[str]) -> bytes:
        return msgspec.json.encode({"Pod": msgspec.Raw(pod.raw), "Nodes": None, "NodeNames": list(nodes)})

    async def _call(self, verb: str, body: bytes) -> Any:
        self.calls[verb] = self.calls.get(verb, 0) + 1
        try:
            return await self._answer(verb, body)
        except ExtenderError:
            self.errors[verb] = self.errors.get(verb, 0) + 1
            raise

    async def _answer(self, verb: str, body: bytes) -> Any:
        try:
            with anyio.fail_after(_TIMEOUT_SECONDS):
                status, answer = await self._ask(verb, body)
        except (TimeoutError, ConnectionLost) as error:
            raise ExtenderError(f"{verb}: {str(error) or 'no answer in time'}") from error
        if status != _OK:
            raise ExtenderError(f"{verb}: status {status}")
        found: Json | list[Any] = msgspec.json.decode(answer)
        return found
