"""A small async client for authors of agents: one VM's conversation with its scheduler (extra "client": httpx).

Flows through: what the VM should have -> one request at a time -> a permit that was checked as Neon's agents check theirs. An
answer that fails a check changes nothing: the last good permit stays. Deliberately absent: when to ask (docs/agents.md has the
times that Neon's agents keep), finding the scheduler's Pod, and retries.
"""

from collections.abc import Callable
from typing import Final

import httpx

from slackwater_protocol.agent import AgentRequest, Metrics, PluginResponse, PodName, Resources, SlotResources
from slackwater_protocol.agent_versions import ProtocolVersion, counts_slots

#: For an answer; what is asked to wait for comes on top.
ANSWER_SECONDS: Final = 10.0
#: Of a text that is quoted in an error.
_LONGEST_QUOTE: Final = 200


class AgentClientError(Exception):
    """Nothing was permitted; `permit` of the client is what it was before.

    ├── NoAnswer       no connection, or no answer in time: it may have been decided
    ├── AnswerRefused  a status that is not 200
    └── BadAnswer      a 200 that no agent can follow
    """


class NoAnswer(AgentClientError):
    """The request did not reach the scheduler, or its answer did not come back."""


class AnswerRefused(AgentClientError):
    """`status` and `text` as they came."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"answered {status}: {text[:_LONGEST_QUOTE]}")
        self.status = status
        self.text = text


class BadAnswer(AgentClientError):
    """The answer cannot be read, or breaks a rule of the protocol; the message says which."""


class AgentClient:
    """One VM's agent. `memory` counts bytes, in v3.0 slots. Requests are made one after another, never two at a time."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        *,
        pod: PodName,
        compute_unit: Resources,
        version: ProtocolVersion = ProtocolVersion.V5_0,
        answer_seconds: float = ANSWER_SECONDS,
        token: Callable[[], str] | None = None,
    ) -> None:
        """`token` gives the present bearer token, where the scheduler wants one."""
        self._http = http
        self._url = url
        self._pod = pod
        self._version = version
        self._compute_unit = self._in_version(compute_unit)
        self._answer_seconds = answer_seconds
        self._token = token
        #: The last good permit, also of another scheduler if you set it; None before the first.
        self.permit: Resources | None = None
        #: Whether the last answer said that the VM is going to be migrated: leave its resources alone.
        self.migrating = False

    async def ask(
        self, wanted: Resources, *, in_use: Resources, metrics: Metrics | None = None, wait_seconds: int = 0
    ) -> Resources:
        """What the VM may use now, between `in_use` and `wanted`.

        Less than `in_use` cannot be wanted: give it back first. With `wait_seconds` an increase without room waits for it.
        Raises `AgentClientError`, and `ValueError` for what no scheduler would take.
        """
        if not _within(in_use, wanted):
            raise ValueError(f"wanted {_shown(wanted)} is below {_shown(in_use)}, which is in use")
        request = AgentRequest(
            proto_version=self._version,
            pod=self._pod,
            compute_unit=self._compute_unit,
            resources=self._in_version(wanted),
            last_permit=None if self.permit is None else self._in_version(self.permit),
            metrics=metrics,
        )
        if (problem := request.problem()) is not None:
            raise ValueError(problem)
        answer = await self._answered(request, wait_seconds)
        check_permit(answer.permit, wanted=wanted, in_use=in_use)
        self.permit, self.migrating = answer.permit, answer.migrate is not None
        return answer.permit

    async def _answered(self, request: AgentRequest, wait_seconds: int) -> PluginResponse:
        headers = {"content-type": "application/json"}
        if wait_seconds:
            headers["prefer"] = f"wait={wait_seconds}"
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token()}"
        timeout = self._answer_seconds + wait_seconds
        try:
            answer = await self._http.post(self._url, content=request.to_body(), headers=headers, timeout=timeout)
        except httpx.HTTPError as error:
            raise NoAnswer(f"{self._url}: {type(error).__name__}: {error}") from error
        if answer.status_code != httpx.codes.OK:
            raise AnswerRefused(answer.status_code, answer.text)
        try:
            return PluginResponse.from_body(answer.content)
        except ValueError as error:
            raise BadAnswer(f"cannot be read: {answer.text[:_LONGEST_QUOTE]!r}") from error

    def _in_version(self, amount: Resources) -> Resources:
        kind = SlotResources if counts_slots(self._version) else Resources
        return amount if type(amount) is kind else kind(milli_cpu=amount.milli_cpu, memory=amount.memory)


def check_permit(permit: Resources, *, wanted: Resources, in_use: Resources) -> None:
    """The three rules by which Neon's agents judge a permit. Raises `BadAnswer`."""
    if not permit.milli_cpu or not permit.memory:
        raise BadAnswer(f"permit {_shown(permit)} has a zero field")
    if not _within(permit, wanted):
        raise BadAnswer(f"permit {_shown(permit)} exceeds what was asked, {_shown(wanted)}")
    if not _within(in_use, permit):
        raise BadAnswer(f"permit {_shown(permit)} is below what is in use, {_shown(in_use)}")


def _within(one: Resources, other: Resources) -> bool:
    return one.milli_cpu <= other.milli_cpu and one.memory <= other.memory


def _shown(amount: Resources) -> str:
    return f"{amount.milli_cpu}m CPU and {amount.memory} memory"
