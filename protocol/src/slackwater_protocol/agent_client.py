"""A small async client for authors of agents: asks the scheduler for one VM's permits. It needs the extra "client" (httpx).

In: what the VM should have. Out: a permit, which was checked as Neon's agents check theirs. An answer that fails a check
changes nothing: the last good permit stays. Deliberately absent: when to ask (docs/agents.md has the intervals of Neon's
agents), how to find the scheduler's Pod, and retries.
"""

from collections.abc import Callable
from typing import Final

import httpx

from slackwater_protocol.agent import AgentRequest, Metrics, PluginResponse, PodName, Resources, SlotResources
from slackwater_protocol.agent_versions import ProtocolVersion, counts_slots

#: The default timeout of a request, in seconds. If the request asks the scheduler to wait, that time is added.
ANSWER_SECONDS: Final = 10.0
#: The most characters of an answer that an error message quotes.
_LONGEST_QUOTE: Final = 200


class AgentClientError(Exception):
    """The client got no permit. Its `permit` is the same as before.

    ├── NoAnswer       no connection, or no answer before the timeout; the scheduler may have granted the request
    ├── AnswerRefused  an HTTP status other than 200
    └── BadAnswer      status 200, but an answer that an agent must not follow
    """


class NoAnswer(AgentClientError):
    """The request did not reach the scheduler, or its answer did not arrive before the timeout."""


class AnswerRefused(AgentClientError):
    """The scheduler answered with an HTTP status other than 200. `status` and `text`: of that answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"answered {status}: {text[:_LONGEST_QUOTE]}")
        self.status = status
        self.text = text


class BadAnswer(AgentClientError):
    """The answer cannot be read, or breaks a rule of the protocol. The message says which."""


class AgentClient:
    """A client for one VM's agent. Memory is in bytes; in v3.0, in memory slots. Call `ask` again only after it has
    returned."""

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
        """Makes a client that sends requests to `url`. `token` returns the current bearer token; None if the scheduler needs
        none."""
        self._http = http
        self._url = url
        self._pod = pod
        self._version = version
        self._compute_unit = self._in_version(compute_unit)
        self._answer_seconds = answer_seconds
        self._token = token
        #: The last good permit; None before the first. An agent that has a permit of another scheduler may set it here.
        self.permit: Resources | None = None
        #: Whether the last answer said that the VM is going to be migrated. Then its resources must not change.
        self.migrating = False

    async def ask(
        self, wanted: Resources, *, in_use: Resources, metrics: Metrics | None = None, wait_seconds: int = 0
    ) -> Resources:
        """Asks for `wanted` and returns what the VM may use now: at least `in_use`, at most `wanted`.

        `wanted` must not be less than `in_use`: reduce the VM's use first. `wait_seconds`: how long the scheduler may wait for
        room before it grants less than `wanted`. Raises `AgentClientError` if there is no good answer, `ValueError` for a
        request that every scheduler would refuse.
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
    """Checks a permit by the three rules of Neon's agents. Raises `BadAnswer` if it breaks one."""
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
