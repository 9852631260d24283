"""The running service, and what holds of every request to it whatever it says."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

#: Nobody waits for this long; a test that runs into it has found something that hangs.
_SECONDS: Final = 120.0
#: 503 is no fault: the service says that it will not answer now.
_FAULTS: Final = {500, 501, 502, 504}


class _Changed(AssertionError):
    """A refused request changed the state, or the state changed while it was asked."""


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
        try:
            return self._asked_once(listener, method, path, body, headers)
        except _Changed:  # perhaps a hold of an earlier request ended meanwhile: that does not happen twice
            return self._asked_once(listener, method, path, body, headers)

    def _asked_once(
        self, listener: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        before = self.state()
        answer = self._http.request(method, f"{self.urls[listener]}{path}", content=body, headers=dict(headers or {}))
        self.judge(answer.status_code, f"{method} {path} {body!r:.500}", before)
        return answer

    def judge(self, status: int, what: str, before: Mapping[str, Any]) -> None:
        assert status not in _FAULTS, f"{what}: {status}\n{self._log.read_text()[-3000:]}"
        if status >= 400:
            after = self.state()
            changed = sorted(key for key in before if before[key] != after[key])
            if changed:
                raise _Changed(f"{what}: {status}, yet it changed {changed}")

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
