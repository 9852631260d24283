"""Our own clients over TLS: the commands, the client of the API server, and the one for agents' authors ask nobody whom they
cannot trust, and show their certificate to whom they can."""

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
import trustme
import yaml

from slackwater.adapters.api_calls import Read, Write
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.uvicorn_listener import listen, serve_app
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.errors import Unreachable
from slackwater.cli.commands.ops_client import fetch
from slackwater.cli.commands.output import CommandFailed
from slackwater_protocol.agent import PodName, Resources
from slackwater_protocol.agent_client import AgentClient, AnswerRefused, NoAnswer
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio

GIB = 2**30


async def app(scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200 if scope["method"] == "GET" else 404, "headers": []})
    await send({"type": "http.response.body", "body": (scope["state"]["peer"] or "nobody").encode()})


@asynccontextmanager
async def a_server(pki: Pki, leaf: trustme.LeafCert) -> AsyncIterator[str]:
    pki.write(leaf)
    certificates = Certificates("ops", pki.tls(), unix_seconds=lambda: 0.0)
    with listen("ops", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            await group.start(serve_app, app, sock, certificates)
            yield f"https://127.0.0.1:{sock.getsockname()[1]}"
            group.cancel_scope.cancel()


def files(pki: Pki, client: trustme.LeafCert | None) -> dict[str, str | None]:
    """Of a client: the CA that it trusts, and its own certificate."""
    folder = pki.folder / "client"
    folder.mkdir(exist_ok=True)
    pki.ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    if client is None:
        return {"ca": str(folder / "ca.pem"), "cert": None, "key": None}
    client.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    client.private_key_pem.write_to_path(str(folder / "key.pem"))
    return {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}


async def by_command(url: str, held: dict[str, str | None], _pki: Pki, _client: trustme.LeafCert | None) -> str:
    args = argparse.Namespace(url=url, ca_file=held["ca"], cert_file=held["cert"], key_file=held["key"], progress=False)
    try:
        return (await anyio.to_thread.run_sync(fetch, "/statusz", args)).decode()
    except CommandFailed as failed:
        return f"refused: {failed}"


async def by_kubeconfig(url: str, held: dict[str, str | None], pki: Pki, _client: trustme.LeafCert | None) -> str:
    user = {} if held["cert"] is None else {"client-certificate": held["cert"], "client-key": held["key"]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": held["ca"]}}],
        "users": [{"name": "u", "user": user}],
    }
    path = pki.folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        async with open_client(kubeconfig=str(path)) as client:
            return (await client.send(Read("/version", timeout_seconds=60))).body.decode()
    except Exception as error:
        return f"refused: {error}"


async def by_agent(url: str, _held: dict[str, str | None], pki: Pki, client: trustme.LeafCert | None) -> str:
    unit = Resources(milli_cpu=250, memory=GIB)
    async with httpx.AsyncClient(verify=pki.context(client), trust_env=False, timeout=60) as http:
        agent = AgentClient(http, url, pod=PodName(namespace="d", name="p"), compute_unit=unit)
        try:
            await agent.ask(unit, in_use=unit)
        except AnswerRefused as answered:
            return answered.text
        except NoAnswer as error:
            return f"refused: {error}"
    return ""


CLIENTS = [by_command, by_kubeconfig, by_agent]
Ask = Callable[..., Awaitable[str]]


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
async def test_a_trusted_server_is_shown_the_certificate(tmp_path: Path, ask: Ask) -> None:
    pki = Pki(tmp_path)
    client = pki.client("someone")
    async with a_server(pki, pki.server()) as url:
        assert await ask(url, files(pki, client), pki, client) == "someone"


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("server", ["expired", "another name", "another CA", "no certificate of ours"])
async def test_no_data_goes_to_an_untrusted_server_and_none_comes_without_a_certificate(
    tmp_path: Path, ask: Ask, server: str
) -> None:
    pki = Pki(tmp_path)
    leaf = {
        "expired": pki.server(expired=True),
        "another name": pki.server("slackwater.example"),
        "another CA": pki.server(by=pki.stranger),
        "no certificate of ours": pki.server(),
    }[server]
    client = None if server == "no certificate of ours" else pki.client("someone")
    async with a_server(pki, leaf) as url:
        said = await ask(url, files(pki, client), pki, client)
    assert said.startswith("refused: ")
    assert url in said
    if client is not None:
        assert "certificate" in said


async def test_a_server_that_cannot_be_trusted_counts_as_not_reached(tmp_path: Path) -> None:
    """So that nothing is taken for sent."""
    pki = Pki(tmp_path)
    async with a_server(pki, pki.server(by=pki.stranger)) as url:
        path = tmp_path / "kubeconfig"
        await by_kubeconfig(url, files(pki, pki.client("someone")), pki, None)
        async with open_client(kubeconfig=str(path)) as client:
            with pytest.raises(Unreachable):
                await client.send(Write("POST", "/", timeout_seconds=60, body=b"{}"))
