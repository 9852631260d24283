"""The parts of the bench of a shadow's day: a loop that does not wait, and a cluster whose pods always find nodes."""

import time
from collections.abc import Iterator
from functools import partial
from random import Random

import anyio
import anyio.to_thread
import msgspec

from slackwater.adapters.api_calls import Read
from tests.bench.shadow.cluster_process import PODS_ON_NODE, Message, Reply, Until, Unwatch, Watch, live
from tests.bench.shadow.skipping import SkippingLoop
from tests.faults.virtualloop import run_virtually


def test_an_hour_is_not_waited_for_and_a_thread_gets_its_time() -> None:
    passed = list[float]()

    async def main() -> None:
        for wait in (anyio.sleep(3600.0), anyio.to_thread.run_sync(time.sleep, 0.05)):
            began = anyio.current_time()
            await wait
            passed.append(anyio.current_time() - began)

    steps, began = list[float](), time.monotonic()
    loop = SkippingLoop(lambda _, seconds: steps.append(seconds), least_seconds=600.0)
    with loop.watched():
        anyio.run(main, backend_options={"loop_factory": lambda: loop})
    assert passed[0] >= 3600.0
    assert passed[1] < 600.0
    assert time.monotonic() - began < 3600.0
    assert steps


def test_pods_come_and_go_on_nodes_that_follow() -> None:
    replies = list[Reply]()

    def messages() -> Iterator[Message]:
        yield Watch(7, "/api/v1/nodes", {"timeoutSeconds": "30000"})
        for hour in (3, 6):
            yield Until(hour * 3600.0)
            yield Read("/api/v1/pods", timeout_seconds=None)
        yield Unwatch(7)

    run_virtually(Random(1), partial(live, 4, messages(), replies.append))
    for answer, want in ((replies[2].answer, 4 * PODS_ON_NODE), (replies[4].answer, 0.6 * 4 * PODS_ON_NODE)):
        assert answer is not None
        pods = msgspec.json.decode(answer.body)["items"]
        assert len(pods) == want
        assert sum("nodeName" in pod["spec"] for pod in pods) > 0.9 * len(pods)
    lines = (lines for reply in replies for number, lines in reply.lines if number == 7)
    nodes = b"".join(line for some in lines if isinstance(some, list) for line in some)
    assert nodes.count(b'"type":"ADDED"') == 4
    assert nodes.count(b'"type":"DELETED"') == 1
