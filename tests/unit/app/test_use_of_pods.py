"""What pods use, beside what they request: asked of Prometheus and of the metrics API, within limits, and never mixed in."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.adapters.api_calls import Params, Read, Response, Write
from slackwater.app.worth import use
from slackwater.app.worth.use import PodUse, UseUnknown, from_metrics_api, from_prometheus
from slackwater.cli.main import main
from slackwater.model.ids import PodKey

URL = "https://prometheus.example:9090/base/"


def a_vector(*samples: tuple[str, str]) -> dict[str, Any]:
    result = [{"metric": {"namespace": "ml", "pod": pod}, "value": [1.0, value]} for pod, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def answering(body: object = None, status: int = 200) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """Prometheus with two pods, or with this answer."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        cpu = "container_cpu_usage_seconds_total" in request.url.params["query"]
        usual = a_vector(("a", "0.25"), ("b", "NaN")) if cpu else a_vector(("a", "1048576"), ("b", "2048"))
        return httpx.Response(status, json=usual if body is None else body)

    return httpx.MockTransport(answer), asked


def test_prometheus_is_asked_for_the_95th_percentile_of_each_pod() -> None:
    transport, asked = answering()
    found = from_prometheus(URL, token="secret", transport=transport)
    assert found.pods == {PodKey("ml", "a"): PodUse(250, 1048576), PodKey("ml", "b"): PodUse(0, 2048)}
    assert found.source == "95th percentile of each pod over 24 h, by Prometheus at https://prometheus.example:9090"
    assert {request.url.path for request in asked} == {"/base/api/v1/query"}
    assert {request.headers["Authorization"] for request in asked} == {"Bearer secret"}
    queries = [request.url.params["query"] for request in asked]
    assert all(query.startswith("quantile_over_time(0.95, sum by (namespace, pod) (") for query in queries)


@pytest.mark.parametrize(
    ("url", "body", "status", "why"),
    [
        ("ftp://x", None, 200, "want http:// or https://"),
        ("https://user:secret@x", None, 200, "want http:// or https://"),
        ("http://prometheus.example", None, 200, "a token is sent over https only"),
        (URL, {"status": "error", "error": "query timed out"}, 503, "status 503: query timed out"),
        (URL, ["no"], 200, "want an answer of Prometheus' API"),
        (URL, {}, 302, "status 302"),
        (URL, {"pad": "x" * 100}, 200, "more than 0 MiB"),
    ],
)
def test_what_is_wrong_is_named(url: str, body: object, status: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(body, dict) and "pad" in body:
        monkeypatch.setattr(use, "MOST_BYTES", 50)
    transport, _ = answering(body, status)
    with pytest.raises(UseUnknown) as error:
        from_prometheus(url, token="token", transport=transport)
    assert why in str(error.value)
    assert "secret" not in str(error.value)


class Metrics:
    def __init__(self, status: int, body: object) -> None:
        self._status, self._body = status, body

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        raise AssertionError("nothing is watched")
        yield []

    async def send(self, call: Read | Write) -> Response:
        assert call.path == "/apis/metrics.k8s.io/v1beta1/pods"
        return Response(self._status, json.dumps(self._body).encode(), {})


@pytest.mark.anyio
async def test_the_metrics_api_has_one_moment_and_says_so() -> None:
    containers = [{"usage": {"cpu": "1500000n", "memory": "1Mi"}}, {"usage": {"cpu": "2m", "memory": "1Ki"}}]
    body = {"metadata": {}, "items": [{"metadata": {"name": "a", "namespace": "ml"}, "containers": containers}]}
    found = await from_metrics_api(Metrics(200, body))
    assert found.pods == {PodKey("ml", "a"): PodUse(4, 1049600)}
    assert "not a percentile" in found.source
    with pytest.raises(UseUnknown, match="metrics API"):
        await from_metrics_api(Metrics(404, {}))


def test_use_that_was_asked_for_and_is_not_known_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.unit.app.test_worth_command import CLUSTER

    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    assert main(["worth", "--cluster", str(file), "--prometheus", "http://127.0.0.1:1"]) == 4
    assert "--prometheus: http://127.0.0.1:1: " in capsys.readouterr().err
    assert main(["worth", "--cluster", str(file), "--prometheus-token", str(file)]) == 2
