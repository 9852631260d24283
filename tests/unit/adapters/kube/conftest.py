"""A fake API server, and a client of it that has time: no answer is late because the machine stands still for a while."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slackwater.adapters.kube import client as client_of_api
from slackwater.adapters.kube import config_maps
from slackwater.adapters.kube.client import KubeClient, open_client
from tests.support.fakeapi import FakeApi, fake_api, write_kubeconfig


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_of_api, "_CONNECT_SECONDS", 60.0)
    monkeypatch.setattr(config_maps, "_READ_SECONDS", 60.0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def api(anyio_backend: str) -> AsyncIterator[FakeApi]:
    async with fake_api() as api:
        yield api


@pytest.fixture
async def client(api: FakeApi, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with open_client(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", api.url)) as client:
        yield client
