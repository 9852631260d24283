"""Progress: shares and the time that is left, as lines where stderr is no terminal and somebody asked for them."""

import io
from collections.abc import Mapping

import pytest

from slackwater.adapters.api_calls import Call, Response
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app import progress
from slackwater.app.progress import shown


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_lines_say_the_share_and_the_time_left_now_and_then(clock: Clock) -> None:
    stream = io.StringIO()
    with shown(stream, forced=True) as steps:
        steps.step("reading pods")
        for seconds, done in ((1, 100), (6, 2_500), (7, 3_000), (12, 5_000)):
            clock.now = seconds
            steps.at(done, 10_000)
        steps.step("planning")
        clock.now = 20
        steps.at(7)
    assert stream.getvalue().splitlines() == [
        "slackwater: reading pods",
        "slackwater: reading pods: 25 %, about 18 s left",
        "slackwater: reading pods: 50 %, about 12 s left",
        "slackwater: planning",
        "slackwater: planning: 7",
    ]


def test_without_a_terminal_nothing_is_shown_unless_it_is_asked_for() -> None:
    stream = io.StringIO()
    with shown(stream) as steps:
        steps.step("reading pods")
        steps.at(1, 2)
    assert not stream.getvalue()


class Pages:
    """An API server whose list has three pages."""

    _BODIES: Mapping[str, bytes] = {
        "": b'{"metadata": {"continue": "a", "remainingItemCount": 700}, "items": []}',
        "a": b'{"metadata": {"continue": "b", "remainingItemCount": 200}, "items": []}',
        "b": b'{"metadata": {}, "items": []}',
    }

    async def send(self, call: Call) -> Response:
        return Response(200, self._BODIES[call.params.get("continue", "")])


@pytest.mark.anyio
async def test_a_list_of_several_pages_says_how_far_it_is() -> None:
    seen = list[tuple[int, int]]()
    objects = ApiObjects(Pages())  # type: ignore[arg-type]
    pages = [page async for page in objects.pages("/api/v1/pods", report=lambda done, total: seen.append((done, total)))]
    assert (len(pages), seen) == (3, [(500, 1200), (1000, 1200)])
