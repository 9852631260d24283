"""Listeners that have time: nothing is thought to hang because the machine stands still for a while."""

import pytest

from slackwater.adapters.http import certificates, uvicorn_listener


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_READ_SECONDS", 60.0)
    monkeypatch.setattr(uvicorn_listener, "HANDSHAKE_SECONDS", 60.0)
