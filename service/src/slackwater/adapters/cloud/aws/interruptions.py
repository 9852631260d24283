"""Warnings that machines will stop, from a queue (SQS) to which EventBridge sends what EC2 says of spot machines.

A message is deleted once it was taken, or if it says nothing that is wanted; else it comes again. Only a leader reads, once it
knows the machines of its groups. What a message says is bounded: no machine stops later than two minutes from now, and a
warning of long ago does not count.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import anyio
import structlog

from slackwater.adapters.cloud.aws.client import AwsClient
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import InstanceId, MachineWarning
from slackwater.ports.protocols import ProviderError

_log = structlog.get_logger(__name__)

_STOPS: Final = "EC2 Spot Instance Interruption Warning"
_MAY_STOP: Final = "EC2 Instance Rebalance Recommendation"
#: EC2 warns so long before it stops a machine.
_NOTICE_SECONDS: Final = 120.0
#: Messages in one answer, and how long the queue waits for one: what SQS allows.
_BATCH: Final = 10
_WAIT_SECONDS: Final = 20
_CALL_SECONDS: Final = 30.0
#: The pause while it is not read, or a message was not taken.
_PAUSE_SECONDS: Final = 5.0
#: A machine that should have stopped so long ago does not stop.
_STALE_SECONDS: Final = 900.0
_LONGEST_PROBLEM: Final = 300
_BACKOFF: Final = ExponentialBackoff(first_seconds=5.0, longest_seconds=300.0)


class InterruptionQueue:
    """Reads the queue at `url`. `name_of`: the name of a machine by AWS' id, None if it is in none of our groups. `take`: takes
    a warning; False if it should come again. `reads`: whether it is read now. `now`: Unix time in seconds."""

    def __init__(
        self,
        client: AwsClient,
        url: str,
        *,
        name_of: Callable[[str], InstanceId | None],
        take: Callable[[MachineWarning], bool],
        reads: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._url = url
        self._name_of = name_of
        self._take = take
        self._reads = reads
        self._now = now

    async def run(self) -> None:
        """Reads until cancelled. A queue that cannot be read is logged and tried again, later each time."""
        failures = 0
        while True:
            try:
                everything = await self.once() if self._reads() else False
                failures = 0
            except ProviderError as error:
                failures += 1
                _log.warning("interruptions are not read", problem=error.detail)
                await anyio.sleep(_BACKOFF.seconds(failures))
                continue
            if not everything:
                await anyio.sleep(_PAUSE_SECONDS)

    async def once(self) -> bool:
        """Waits for messages and takes them. False if one of them was not taken."""
        try:
            with anyio.fail_after(_CALL_SECONDS):
                answer = await self._client.ask(
                    "sqs",
                    "receive_message",
                    QueueUrl=self._url,
                    MaxNumberOfMessages=_BATCH,
                    WaitTimeSeconds=_WAIT_SECONDS,
                )
            messages = list(answer.get("Messages") or ())
            done = [message for message in messages if self._is_done(message.get("Body", ""))]
            entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(done)]
            if entries:
                with anyio.fail_after(_CALL_SECONDS):
                    await self._client.ask("sqs", "delete_message_batch", QueueUrl=self._url, Entries=entries)
        except TimeoutError as error:
            raise ProviderError("unknown", None, f"{self._url}: no answer within {_CALL_SECONDS:g} s") from error
        return len(done) == len(messages)

    def _is_done(self, body: str) -> bool:
        try:
            event = json.loads(body)
            said = None if event.get("detail-type") not in (_STOPS, _MAY_STOP) else _warning(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]
            _log.warning("a message about interruptions cannot be read", problem=problem)
            return True
        if said is None:
            return True
        id_, stops_at, text = said
        name = self._name_of(id_)
        if name is None:
            return True
        if stops_at is not None:
            if stops_at < self._now() - _STALE_SECONDS:
                _log.warning("a machine was to stop long ago, and is still there", machine=name)
                return True
            stops_at = UnixTime(min(stops_at, self._now() + _NOTICE_SECONDS))
        return self._take(MachineWarning(machine=name, stops_at=stops_at, text=text))


def _warning(event: Mapping[str, Any]) -> tuple[str, UnixTime | None, str]:
    """The id of the machine, when it stops, and why, as a text."""
    id_ = event["detail"]["instance-id"]
    if not isinstance(id_, str):
        raise TypeError(f"instance-id: got {id_!r:.80}, want a text")
    if event["detail-type"] == _MAY_STOP:
        return id_, None, "AWS recommends to replace the spot machine"
    at = datetime.fromisoformat(event["time"]).timestamp()
    return id_, UnixTime(at + _NOTICE_SECONDS), "AWS interrupts the spot machine"
