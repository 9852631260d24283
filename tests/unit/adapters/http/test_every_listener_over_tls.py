"""TLS on each of the three listeners of the whole service, over real sockets: who is heard, and who is not."""

import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import a_request
from tests.support.loops import each_loop
from tests.support.pki import Pki
from tests.support.wholeservice import LISTENERS, Whole, a_whole_service

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture


BIND = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}


def everywhere(pki: Pki) -> dict[str, Any]:
    tls = pki.write()
    agents = {"tls": tls, "authentication": {"certificates": {}}}
    return {"listeners": {"extender": {"tls": tls}, "agents": agents, "ops": {"tls": tls}}}


async def asked(whole: Whole, listener: str, verify: ssl.SSLContext) -> int:
    """The status of a question that the listener answers with 200 to whom it trusts; the agent's pod is unknown: 404."""
    async with httpx.AsyncClient(verify=verify, base_url=whole.url(listener), trust_env=False, timeout=60) as http:
        match listener:
            case "extender":
                answer = await http.post(
                    "/scheduler/bind", json={"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}
                )
            case "agents":
                answer = await http.post("/", json=a_request())
            case _:
                answer = await http.get("/statusz")
        return answer.status_code


async def test_only_a_trusted_certificate_that_has_not_expired_is_accepted(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    name = "system:node:n"
    good = pki.context(pki.client(name))
    bad = [pki.context(), pki.context(pki.client(name, by=pki.stranger)), pki.context(pki.client(name, expired=True))]
    async with a_whole_service(everywhere(pki), ops={"verify": good}) as whole:
        before = await whole.state()
        for listener in LISTENERS:
            for context in bad:
                with pytest.raises(httpx.TransportError):
                    await asked(whole, listener, context)
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as plain:
                with pytest.raises(httpx.TransportError):
                    await plain.get(whole.url(listener).replace("https", "http"))
            assert await asked(whole, listener, good) == (404 if listener == "agents" else 200)
        assert await whole.state() == before


@pytest.mark.parametrize("server", ["expired", "another name", "another CA"])
async def test_a_listener_that_cannot_be_trusted_is_not_asked(server: str, tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    leaf = {
        "expired": pki.server(expired=True),
        "another name": pki.server("slackwater.example"),
        "another CA": pki.server(by=pki.stranger),
    }[server]
    given = everywhere(pki)
    pki.write(leaf)
    async with a_whole_service(given) as whole:
        for listener in LISTENERS:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await asked(whole, listener, pki.context(pki.client("system:node:n")))


async def test_where_certificates_are_optional_callers_without_one_may_look(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    given = everywhere(pki)
    given["listeners"]["ops"]["clientCertificates"] = "optional"
    async with a_whole_service(given, ops={"verify": pki.context()}) as whole:
        for client, want in ((None, 200), (pki.client("admin"), 200)):
            assert await asked(whole, "ops", pki.context(client)) == want
        for bad in (pki.client("admin", by=pki.stranger), pki.client("admin", expired=True)):
            with pytest.raises(httpx.TransportError):
                await asked(whole, "ops", pki.context(bad))
