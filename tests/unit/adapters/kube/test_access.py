"""Kubeconfig, in-cluster account and credentials: what is read, how it is renewed, what is said where it is wrong."""

import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import kubernetes_asyncio.config.incluster_config as incluster
import pytest
import trustme

from slackwater.adapters.api_calls import Read
from slackwater.adapters.kube.access import load_access
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.errors import KubeConfigError, StatusError, Unreachable
from tests.support.fakeapi import FakeApi, fake_api, write_kubeconfig

pytestmark = pytest.mark.anyio

VERSION = "/version"


async def status_of(kubeconfig: str | None) -> int:
    async with open_client(kubeconfig=kubeconfig) as client:
        return (await client.send(Read(VERSION, timeout_seconds=60))).status


async def refusal(kubeconfig: str | None, context: str | None = None) -> str:
    with pytest.raises(KubeConfigError) as caught:
        await load_access(kubeconfig=kubeconfig, context=context)
    return str(caught.value)


async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none"
    want = f"kubeconfig {path}: no such file; name one, or run in a cluster without one"
    assert await refusal(str(path)) == want


async def test_an_unknown_context_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert await refusal(path, "prod") == f"kubeconfig {path}: no context 'prod'; it has fake"


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"current-context": ""}, "names no current-context; choose one of fake"),
        ({"current-context": None, "contexts": []}, "names no current-context; choose one of none"),
        ({"contexts": None}, "no context 'fake'; it has none"),
        ({"clusters": []}, "Expected object with name fake in"),
    ],
    ids=["no current context", "no contexts", "null contexts", "no such cluster"],
)
async def test_a_kubeconfig_with_a_gap_is_refused(tmp_path: Path, change: dict[str, Any], want: str) -> None:
    path = tmp_path / "config"
    write_kubeconfig(path, "http://127.0.0.1:1")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert want in await refusal(str(path))


@pytest.mark.parametrize("text", ["", "{", "just text", "[]"], ids=["empty", "cut short", "text", "list"])
async def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    why = await refusal(str(path))
    assert f"kubeconfig {path}: " in why
    assert "object" not in why, "the library's own trouble with it says nothing to people"


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "ca.crt"
    bad.write_text("no certificate")
    path = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", cluster={"certificate-authority": str(bad)})
    assert "its certificates cannot be used" in await refusal(path)


async def test_outside_a_cluster_there_is_no_account_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert await refusal(None) == "in-cluster account: Service host/port is not set."


async def test_a_token_goes_with_every_request(tmp_path: Path, api: FakeApi) -> None:
    api.token = "Bearer secret-1"
    assert await status_of(write_kubeconfig(tmp_path / "a", api.url, user={"token": "secret-1"})) == 404
    assert await status_of(write_kubeconfig(tmp_path / "b", api.url, user={"token": "wrong"})) == 401
    assert await status_of(write_kubeconfig(tmp_path / "c", api.url)) == 401


async def test_a_token_file_that_changed_is_read_again_after_a_401(tmp_path: Path, api: FakeApi) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    api.token = "Bearer one"
    path = write_kubeconfig(tmp_path / "config", api.url, user={"tokenFile": str(token)})
    async with open_client(kubeconfig=path) as client:
        assert (await client.send(Read(VERSION, timeout_seconds=60))).status == 404
        token.write_text("two\n")
        api.token = "Bearer two"
        assert (await client.send(Read(VERSION, timeout_seconds=60))).status == 404
        assert [asked.headers["Authorization"] for asked in api.asked] == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_watch_renews_its_token_too(tmp_path: Path, api: FakeApi) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    path = write_kubeconfig(tmp_path / "config", api.url, user={"tokenFile": str(token)})
    api.put("/things", "a")
    params = {"watch": "1", "resourceVersion": "1001", "timeoutSeconds": "0"}
    async with open_client(kubeconfig=path) as client:
        token.write_text("two")
        api.token = "Bearer two"
        assert [lines async for lines in client.stream("/things", params=params, silence_seconds=60)] == [[]]
        api.token = "Bearer three"
        with pytest.raises(StatusError, match="401 Unauthorized"):
            [lines async for lines in client.stream("/things", params=params, silence_seconds=60)]


def plugin(path: Path, status: dict[str, str]) -> dict[str, Any]:
    """A credential plug-in that answers `status`, and counts its calls in a file beside it."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    path.write_text(f"import sys\nopen(sys.argv[0] + '.calls', 'a').write('x')\nprint({json.dumps(credential)!r})\n")
    return {"exec": {"apiVersion": credential["apiVersion"], "command": sys.executable, "args": [str(path)]}}


async def test_a_credential_plugin_is_asked_again_before_its_token_expires_and_not_sooner(tmp_path: Path) -> None:
    script = tmp_path / "plugin.py"
    user = plugin(script, {"token": "one", "expirationTimestamp": "2999-01-01T00:00:00Z"})
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user=user)
    now = [0.0]
    access = await load_access(kubeconfig=path, clock=lambda: now[0])
    calls = tmp_path / "plugin.py.calls"
    for _ in range(3):
        assert await access.authorization() == "Bearer one"
        now[0] += 61
    assert calls.read_text() == "x"
    plugin(script, {"token": "two", "expirationTimestamp": "2000-01-01T00:00:00Z"})
    assert await access.renew("Bearer one")
    assert await access.authorization() == "Bearer two"
    plugin(script, {"token": "three", "expirationTimestamp": "2999-01-01T00:00:00Z"})
    assert await access.authorization() == "Bearer two", "looked at once a minute"
    now[0] += 61
    assert await access.authorization() == "Bearer three"
    assert calls.read_text() == "xxx"


async def test_wrong_credentials_are_not_loaded_again_at_every_401(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user=plugin(tmp_path / "p.py", {"token": "one"}))
    now = [0.0]
    access = await load_access(kubeconfig=path, clock=lambda: now[0])
    for _ in range(5):
        assert not await access.renew("Bearer one")
    now[0] += 11
    assert not await access.renew("Bearer one")
    assert (tmp_path / "p.py.calls").read_text() == "xxx"
    assert await access.renew("Bearer zero"), "another request has renewed them meanwhile"


async def test_a_plugin_that_fails_says_why(tmp_path: Path) -> None:
    user = plugin(tmp_path / "p.py", {"token": "one"})
    (tmp_path / "p.py").write_text("import sys; sys.exit('the vault is sealed')")
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user=user)
    assert "the vault is sealed" in await refusal(path)


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    return authority


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_the_servers_certificate_is_checked(tmp_path: Path, authority: trustme.CA) -> None:
    trusted, skipped = {"certificate-authority": str(tmp_path / "ca.crt")}, {"insecure-skip-tls-verify": True}
    async with fake_api(tls=server_context(authority)) as api:
        assert await status_of(write_kubeconfig(tmp_path / "a", api.url, cluster=trusted)) == 404
        assert await status_of(write_kubeconfig(tmp_path / "b", api.url, cluster=skipped)) == 404
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await status_of(write_kubeconfig(tmp_path / "c", api.url))


async def test_a_client_certificate_proves_who_we_are(tmp_path: Path, authority: trustme.CA) -> None:
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    client = authority.issue_cert("slackwater.test")
    client.private_key_pem.write_to_path(tmp_path / "key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    user = {"client-certificate": str(tmp_path / "crt"), "client-key": str(tmp_path / "key")}
    async with fake_api(tls=context) as api:
        path = write_kubeconfig(tmp_path / "a", api.url, user=user, cluster={"certificate-authority": str(tmp_path / "ca.crt")})
        assert await status_of(path) == 404


async def test_in_a_cluster_its_own_account_is_used(
    tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("mounted\n")
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    async with fake_api(tls=server_context(authority)) as api:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
        api.token = "Bearer mounted"
        assert await status_of(None) == 404


@pytest.mark.parametrize(
    ("url", "configured", "environment", "want"),
    [
        ("https://10.0.0.1:6443", None, {}, None),
        ("https://10.0.0.1:6443", None, {"https_proxy": "http://proxy:1"}, "http://proxy:1"),
        ("https://10.0.0.1:6443", "http://mine:2", {"https_proxy": "http://proxy:1"}, "http://mine:2"),
        ("https://10.0.0.1:6443", None, {"https_proxy": "http://proxy:1", "no_proxy": "10.0.0.1"}, None),
        ("https://127.0.0.1:6443", None, {"https_proxy": "http://proxy:1"}, None),
        ("https://localhost:6443", None, {"https_proxy": "http://proxy:1"}, None),
        ("https://10.0.0.1:6443", None, {"http_proxy": "http://proxy:1"}, None),
    ],
    ids=["none", "environment", "kubeconfig first", "excepted", "loopback", "localhost", "another scheme's"],
)
@pytest.mark.usefixtures("no_proxies")
async def test_the_proxy_is_found_as_kubectl_finds_it(
    config: Path, url: str, configured: str | None, environment: dict[str, str], want: str | None
) -> None:
    os.environ.update(environment)
    write_kubeconfig(config, url, cluster={"proxy-url": configured} if configured else {})
    assert (await load_access(kubeconfig=str(config))).endpoint.proxy == want


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that names no proxy; whatever the test sets there is undone."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    monkeypatch.setattr(os, "environ", kept)
