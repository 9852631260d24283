"""One call to AWS: it has a deadline, is repeated only while AWS throttles it, and fails as `ProviderError` only.

botocore's own retries are off: they would repeat a call whose answer was lost, and the end of a machine, with
a lowered size, must not happen twice. Credentials come from botocore's default chain: environment, web identity (IRSA),
container credentials (EKS Pod Identity), instance profile.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from typing import Any, Final, Literal

import anyio
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
)

from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError, ProviderErrorKind

Service = Literal["autoscaling", "ec2", "eks", "sqs"]

#: Codes with which AWS refuses a call because there were too many; the call had no effect.
_THROTTLED: Final = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "SlowDown",
    }
)
#: Other writers of the group are at work: the same call may succeed later.
_BUSY: Final = frozenset({"ResourceContention", "ScalingActivityInProgress", "ResourceInUse"})
#: What a ValidationError says, and what it means.
_VALIDATION: Final[dict[str, ProviderErrorKind]] = {
    "not found": "gone",
    "No managed instance found": "gone",
    "min size constraint": "limit",
    "above max value": "limit",
    "below min value": "limit",
}
#: Errors before anything was sent.
_NOT_SENT: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    NoRegionError,
    ParamValidationError,
)
#: AWS fills the buckets of its throttle within some seconds.
_PAUSES: Final = ExponentialBackoff(first_seconds=0.5, longest_seconds=8.0)
_LONGEST_DETAIL: Final = 300
_CONNECT_SECONDS: Final = 5
#: The longest wait for an answer; callers have shorter deadlines. A long poll of a queue takes 20 s.
_READ_SECONDS: Final = 60
SERVER_ERROR: Final = 500


class RefusedByAws(ProviderError):
    """AWS answered with an error. `code` is its code, such as AccessDenied."""

    def __init__(self, kind: ProviderErrorKind, group: GroupName | None, detail: str, code: str) -> None:
        super().__init__(kind, group, detail)
        self.code = code


class AwsClient:
    """Makes calls by botocore's clients of the services, which `open_client` makes."""

    def __init__(self, services: Mapping[Service, Any]) -> None:
        self._services = services

    async def ask(
        self, service: Service, operation: str, *, group: GroupName | None = None, **parameters: Any
    ) -> Mapping[str, Any]:
        """Makes one call, again while AWS throttles it; the caller sets the deadline. `operation`: its name in Python, such as
        describe_auto_scaling_groups. `group`: the group that an error names.

        :raises ProviderError: the call failed; `RefusedByAws` if AWS has answered.
        """
        call = getattr(self._services[service], operation)
        for failures in count(1):
            try:
                answer: Mapping[str, Any] = await call(**parameters)
            except ClientError as error:
                refused = _refused(error, operation, group)
                if refused.code not in _THROTTLED or not _is_time_for(pause := _PAUSES.seconds(failures)):
                    raise refused from error
                await anyio.sleep(pause)
            except _NOT_SENT as error:
                raise ProviderError("other", group, f"{operation}: {str(error)[:_LONGEST_DETAIL]}") from error
            except BotoCoreError as error:
                raise ProviderError("unknown", group, f"{operation}: {str(error)[:_LONGEST_DETAIL]}") from error
            except Exception as error:  # a parser's of a garbled answer, or of a token's file: botocore has no root for them
                detail = f"{operation}: {type(error).__name__}: {str(error)[:_LONGEST_DETAIL]}"
                raise ProviderError("unknown", group, detail) from error
            else:
                return answer
        raise AssertionError("unreachable")

    async def pages(
        self, service: Service, operation: str, field: str, *, most: int, **parameters: Any
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yields the elements of `field` of each page of an answer; of `most` pages at most.

        :raises ProviderError: a page failed, so that nobody takes a part for the whole, or there are more pages.
        """
        for _ in range(most):
            answer = await self.ask(service, operation, **parameters)
            for element in answer.get(field) or ():
                yield element
            token = answer.get("NextToken")
            if not token:
                return
            parameters["NextToken"] = token
        raise ProviderError("other", None, f"{operation}: got more than {most} pages, want tags that select fewer")


def is_throttled(error: ProviderError) -> bool:
    """Whether the call certainly had no effect, because there were too many."""
    return isinstance(error, RefusedByAws) and error.code in _THROTTLED


@contextmanager
def readable(what: str) -> Iterator[None]:
    """A context that raises a `ProviderError` if its body finds that an answer lacks something. `what` is the answer."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ProviderError("other", None, f"{what}: an answer cannot be read: {type(error).__name__}: {error}") from error


def _is_time_for(pause: float) -> bool:
    """Whether a pause ends before the caller's deadline."""
    return anyio.current_time() + pause < anyio.current_effective_deadline()


def _refused(error: ClientError, operation: str, group: GroupName | None) -> RefusedByAws:
    said = error.response.get("Error", {})
    # To a wrong signature AWS adds lines with the request's headers, and with them the session token.
    code, message = str(said.get("Code", "")), str(said.get("Message", "")).partition("\n")[0]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind: ProviderErrorKind = "other"
    if code in _BUSY:
        kind = "conflict"
    elif status >= SERVER_ERROR or code in _THROTTLED:  # a throttled growth is asked for again, without a back-off
        kind = "unknown"
    elif code == "ValidationError":
        kind = next((kind for words, kind in _VALIDATION.items() if words in message), "other")
    return RefusedByAws(kind, group, f"{operation}: {code}: {message}"[:_LONGEST_DETAIL], code)


@asynccontextmanager
async def open_client(*, region: str | None, queue: bool) -> AsyncIterator[AwsClient]:
    """Opens connections to the services; the first call connects. `region`: None for that of the environment. `queue`: whether
    the queue of interruptions is read, too.

    :raises ProviderError: no region is known.
    """
    config = AioConfig(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 1},
        user_agent_extra="slackwater",
        # Models of services are megabytes of JSON, which are read in a thread.
        warm_up_loader_caches=True,
    )
    names: tuple[Service, ...] = ("autoscaling", "ec2", "eks", *(("sqs",) if queue else ()))
    session, services = get_session(), {}
    async with AsyncExitStack() as stack:
        for name in names:
            try:
                opening = session.create_client(name, region_name=region, config=config)
                services[name] = await stack.enter_async_context(opening)
            except BotoCoreError as error:
                raise ProviderError("other", None, f"{name}: {str(error)[:_LONGEST_DETAIL]}") from error
        yield AwsClient(services)
