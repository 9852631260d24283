"""The version that a life of the service follows: read, stated, assumed, and noticed when it changes."""

import json
from collections.abc import Iterator
from random import Random

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from slackwater.adapters.api_calls import Call, Response
from slackwater.adapters.kube.errors import Unreachable
from slackwater.app import version_watch
from slackwater.app.settings import Settings
from slackwater.app.settings.serving import Scheduler
from slackwater.app.version_watch import FollowedVersion
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.sandbox.embedded.server import ApiServer
from tests.faults.virtualloop import virtual_time

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture


class Api:
    """An API server that answers /version with one text after another; None: it cannot be reached."""

    def __init__(self, *answers: str | None) -> None:
        self._answers: Iterator[str | None] = iter(answers)
        self._last: str | None = None

    async def send(self, call: Call) -> Response:
        assert str(call) == "GET /version"
        self._last = next(self._answers, self._last)
        if self._last is None:
            raise Unreachable("connection refused")
        return Response(200, json.dumps({"major": "1", "gitVersion": self._last}).encode(), {})


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_FIRST_SECONDS", 0.05), ("_AGAIN_SECONDS", 0.001), ("_EVERY_SECONDS", 0.001)):
        monkeypatch.setattr(version_watch, name, seconds)
    monkeypatch.setattr(version_watch, "_UNREAD_SECONDS", 0.001)


def followed(*answers: str | None) -> FollowedVersion:
    return FollowedVersion(Api(*answers))


async def test_it_is_the_api_servers() -> None:
    assert str(await followed("v1.37.2").find(Settings())) == "1.37.2"


async def test_the_configuration_states_another_and_the_gates() -> None:
    settings = Settings(scheduler=Scheduler(version="1.35.4", feature_gates="VolumeLimitScaling=true"))
    found = await followed("v1.37.2").find(settings)
    assert (str(found), found.gates) == ("1.35.4", (("VolumeLimitScaling", True),))


async def test_a_server_that_answers_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_watch, "_FIRST_SECONDS", 60.0)
    assert str(await followed(None, None, "v1.34.4").find(Settings())) == "1.34.4"


async def test_a_server_that_does_not_answer_does_not_keep_the_service_from_starting() -> None:
    assert await followed(None).find(Settings()) == DEFAULT_VERSION


async def test_gates_that_the_clusters_version_lacks_are_ignored() -> None:
    settings = Settings(scheduler=Scheduler(feature_gates="VolumeLimitScaling=true"))
    assert (await followed("v1.34.4").find(settings)).gates == ()


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        (("v1.36.3", "v1.36.9", "v1.37.0"), True),
        (("v1.36.3", "v1.36.9"), False),
        (("v1.37.2", "v1.36.3"), False),
        ((*[None] * 100, "v1.37.2"), True),
        ((*[None] * 100, "v1.36.3"), False),
    ],
    ids=["upgrade", "patch", "an older server of the same control plane", "read at last", "read as assumed"],
)
async def test_a_life_ends_when_other_rules_hold(answers: tuple[str | None, ...], ends: bool) -> None:
    version = followed(*answers)
    in_force = await version.find(Settings())
    with anyio.move_on_after(60.0 if ends else 0.3) as waiting:
        await version.changed(Settings(), in_force)
    assert waiting.cancelled_caught is not ends
    if ends:
        assert await version.find(Settings()) == KubernetesVersion.parse(str(answers[-1]))


async def test_a_server_that_refuses_is_reported_once_and_the_default_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A command that an earlier test ran lets each module's logger keep the processors of that command.
    monkeypatch.setattr(version_watch, "_log", structlog.get_logger())
    read_again = anyio.Event()

    class Refusing:
        calls = 0

        async def send(self, _call: Call) -> Response:
            self.calls += 1
            if self.calls == 3:
                read_again.set()
            return Response(404, b"404 page not found\n", {})

    version = FollowedVersion(Refusing())
    with capture_logs() as lines:
        assert await version.find(Settings()) == DEFAULT_VERSION
        async with anyio.create_task_group() as running:
            running.start_soon(version.changed, Settings(), DEFAULT_VERSION)
            with anyio.fail_after(60):
                await read_again.wait()
            running.cancel_scope.cancel()
    assert [line["log_level"] for line in lines if line["event"].endswith("not readable")].count("warning") == 1


async def test_the_sandbox_says_which_version_it_behaves_as() -> None:
    answer = ApiServer(rng=Random(1), wall=lambda: 0.0).request("GET", "/version")
    assert json.loads(answer.body)["gitVersion"] == f"v{DEFAULT_VERSION}"
