"""Agents that are not what they should be: some say nothing for a while, some say besides what they mean what is not true.

A lie is another request beside the agent's own: it asks for less than is in use, jumps beyond every bound, names a pod that is
not there, claims a permit that nobody gave, or is no request at all. What a liar's own pod then has is its own fault, and so is
what becomes of its node; everybody else's laws stay.
"""

from random import Random
from typing import Final

import anyio
import msgspec

from slackwater.sandbox.embedded.faults import Json
from tests.faults.provider_faults import Sky

_LONGEST_SILENCE_SECONDS: Final = 40.0


class Tempers:
    """`rng` decides; `sky` says how often."""

    def __init__(self, rng: Random, sky: Sky) -> None:
        self._rng = rng
        self._sky = sky
        self._silent_until: dict[str, float] = {}
        self.liars: set[str] = set()  #: pods of which something untrue was said

    def is_silent(self, pod: str) -> bool:
        """The agent does not ask now, though it would."""
        if self._sky.calm:
            return False
        now = anyio.current_time()
        if self._rng.random() < self._sky.now.agent_silent:
            self._silent_until[pod] = now + self._rng.uniform(2.0, _LONGEST_SILENCE_SECONDS)
        return self._silent_until.get(pod, 0.0) > now

    def lie(self, body: bytes) -> bytes | None:
        """What the agent says besides; mostly nothing."""
        if self._rng.random() >= self._sky.now.agent_lies:
            return None
        said = msgspec.json.decode(body)
        reported = self._rng.choice((_less, _jump, _elsewhere, _permitted, _nonsense))(said)
        if reported is not _NOTHING_MEANT and reported["pod"] == said["pod"]:
            self.liars.add(said["pod"]["name"])
        return msgspec.json.encode(reported)


_NOTHING_MEANT: Final[Json] = {"protoVersion": 99}


def _times(amounts: Json, factor: int) -> Json:
    milli = int(amounts["vCPUs"].removesuffix("m"))
    return {"vCPUs": f"{milli * factor}m", "mem": amounts["mem"] * factor}


def _less(said: Json) -> Json:
    return {**said, "resources": said["computeUnit"]}


def _jump(said: Json) -> Json:
    return {**said, "resources": _times(said["computeUnit"], 1000)}


def _elsewhere(said: Json) -> Json:
    return {**said, "pod": {**said["pod"], "name": "nobody"}}


def _permitted(said: Json) -> Json:
    return {**said, "resources": _times(said["computeUnit"], 6), "lastPermit": _times(said["computeUnit"], 6)}


def _nonsense(_said: Json) -> Json:
    return _NOTHING_MEANT
