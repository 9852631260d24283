"""What nodes use, read from the metrics API: only where it is asked for, and unknown where nobody answers it."""

import json

import pytest

from slackwater.adapters.api_calls import Read, Response, Unanswered
from slackwater.app import node_use, rbac
from slackwater.app.node_use import NodeUseLoop
from slackwater.app.settings import Settings, loads
from slackwater.model.ids import NodeName
from slackwater.model.resources import LARGEST_AMOUNT
from tests.support.builders import amounts
from tests.support.configuration import HEADER

pytestmark = pytest.mark.anyio

USED = {"items": [{"metadata": {"name": f"n{number}"}, "usage": {"cpu": "250000001n", "memory": "1Gi"}} for number in range(2)]}


class Metrics:
    def __init__(self) -> None:
        self.answers: list[Response | Exception] = []
        self.calls: list[Read] = []

    async def send(self, call: Read) -> Response:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_each_node_has_what_it_uses_and_their_sum_is_known() -> None:
    metrics = Metrics()
    metrics.answers = [Response(200, json.dumps(USED).encode())]
    loop = NodeUseLoop(metrics)
    assert loop.latest is None
    await loop.read()
    assert loop.latest is not None
    assert loop.latest.of == dict.fromkeys((NodeName("n0"), NodeName("n1")), amounts("251m", "1Gi")), "rounded up"
    assert loop.latest.total == amounts("502m", "2Gi")
    assert [(call.path, call.timeout_seconds) for call in metrics.calls] == [("/apis/metrics.k8s.io/v1beta1/nodes", 30.0)]


async def test_an_amount_that_no_node_can_have_is_bounded() -> None:
    metrics = Metrics()
    usage = {"cpu": "9e99", "memory": "-1"}
    metrics.answers = [Response(200, json.dumps({"items": [{"metadata": {"name": "n"}, "usage": usage}]}).encode())]
    loop = NodeUseLoop(metrics)
    await loop.read()
    assert loop.latest is not None
    assert loop.latest.total == (LARGEST_AMOUNT, 0)


@pytest.mark.parametrize(
    "answer",
    [
        Response(404, b"404 page not found"),
        Response(403, b"{}"),
        Response(200, b'{"items": [{"metadata": {"name": "n"}, "usage": {"cpu": "much"}}]}'),
        Response(200, b"not JSON"),
        Unanswered("the connection broke"),
    ],
)
async def test_what_cannot_be_read_is_unknown_and_ends_nothing(answer: Response | Exception) -> None:
    metrics = Metrics()
    metrics.answers = [Response(200, json.dumps(USED).encode()), answer, Response(200, json.dumps(USED).encode())]
    loop = NodeUseLoop(metrics)
    for known in (True, False, True):
        await loop.read()
        assert (loop.latest is not None) is known


def test_the_right_goes_with_the_setting() -> None:
    for settings, want in ((Settings(), False), (loads(HEADER + "kube: {nodeUse: true}\n"), True)):
        assert any(rule["apiGroups"] == ["metrics.k8s.io"] for rule in rbac.cluster_role(settings)["rules"]) is want
    assert node_use.PERIOD_SECONDS < node_use.AFTER_FAILURE_SECONDS
