"""The running service, and what holds of every request to it whatever it says."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import requests

#: Nobody waits for this long; a test that runs into it has found something that hangs.
_SECONDS: Final = 120.0
#: 503 is no fault: the service says that it will not answer now.
_FAULTS: Final = {500, 501, 502, 504}


Result = TypeVar("Result")
Answer = TypeVar("Answer", httpx.Response, requests.Response)


class Target:
    """A context manager; `urls` by listener. `log` is what the service has said."""

    def __init__(self, urls: Mapping[str, str], log: Path) -> None:
        self.urls = urls
        self._log = log
        self._http = httpx.Client(timeout=_SECONDS, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._http.close()

    def state(self) -> dict[str, Any]:
        """`/dumpstate`, without what the clock moves: the count of changes, and what is left of promises."""
        answer = self._http.get(f"{self.urls['ops']}/dumpstate")
        assert answer.status_code == 200, answer.text
        return {key: _timeless(value) for key, value in answer.json().items() if key != "generation"}

    def ask(
        self, listener: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Any request. AssertionError if it is answered with a fault, or refused and yet changed something."""
        what = f"{method} {path} {body!r:.500}"
        return self.judged(
            lambda: self._http.request(method, f"{self.urls[listener]}{path}", content=body, headers=dict(headers or {})), what
        )

    def judged(self, request: Callable[[], Answer], what: str) -> Answer:
        """What `request` is answered. AssertionError as for `ask`; `what`: what its text calls the request."""
        answer = self.unchanged_by(request, what, where=lambda answer: answer.status_code >= 400)
        assert answer.status_code not in _FAULTS, f"{what}: {answer.status_code}\n{self._log.read_text()[-3000:]}"
        return answer

    def unchanged_by(self, do: Callable[[], Result], what: str, where: Callable[[Result], bool] = lambda _: True) -> Result:
        """What `do` returns. AssertionError if the state is another one after it, and `where` holds of the result."""
        before = self.state()
        result = do()
        if where(result):
            after = self.state()
            changed = sorted(key for key in before if before[key] != after[key])
            assert not changed, f"{what} changed {changed}"
        return result

    def post(self, listener: str, path: str, document: Any) -> httpx.Response:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask(listener, "POST", path, body, {"content-type": "application/json"})


def _timeless(listed: Any) -> Any:
    if not isinstance(listed, list):
        return listed
    return [
        {key: value for key, value in each.items() if "Seconds" not in key} if isinstance(each, dict) else each
        for each in listed
    ]
