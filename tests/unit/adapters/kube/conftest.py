"""A fake API server, and a client of it that has time: no answer is late because the machine stands still for a while."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slackwater.adapters.kube import client as client_of_api
from slackwater.adapters.kube import config_maps
from slackwater.adapters.kube.client import KubeClient, open_client
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.model.pod_constraints import KindInterner
from tests.support.fakeapi import FakeApi, fake_api, write_kubeconfig


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_of_api, "_CONNECT_SECONDS", 60.0)
    monkeypatch.setattr(config_maps, "_READ_SECONDS", 60.0)


@pytest.fixture
async def api(anyio_backend: str) -> AsyncIterator[FakeApi]:
    async with fake_api() as api:
        yield api


@pytest.fixture
async def client(api: FakeApi, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with open_client(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", api.url)) as client:
        yield client


@pytest.fixture
def writer(client: KubeClient) -> ApiWriter:
    recorder = Recorder(client, instance="test", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=lambda: 0.0)
    return ApiWriter(client, PodDecoder(KindInterner()), recorder, stamp=lambda: "2026-01-01T00:00:00Z")
