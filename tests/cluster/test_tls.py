"""The extender over HTTPS: kube-scheduler shows its certificate, and nobody without one is heard."""

import ssl
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import trustme

from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def test_pods_are_bound_over_https_with_client_certificates_and_strangers_are_refused(
    stage: Stage, ground: Ground, tmp_path: Path
) -> None:
    ca, strangers_ca = trustme.CA(), trustme.CA()
    await ground.make_nodes(5)
    settings = settings_with_tls(ca, tmp_path)
    service = await stage.up({**settings, "extender": {**settings["extender"], "bind": True}})
    names = await ground.make_pods(a_pod(f"p-{number}") for number in range(50))
    await ground.until_bound(50, within_seconds=60)
    assert Counter(stage.bound_so_far()) == Counter(names)
    await same_state(service, ground)

    before = await service.metrics()
    bind = {"PodName": "p-0", "PodNamespace": ground.name, "PodUID": "u", "Node": "n"}
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await service.ask_extender("bind", bind, tls=trusting(ca))
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await service.ask_extender("bind", bind, tls=trusting(ca, client=strangers_ca.issue_cert("kube-scheduler")))
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await service.ask_extender("bind", bind)
    after = await service.metrics()
    name = "slackwater_extender_requests_total"
    assert after.by(name, "code", verb="bind") == before.by(name, "code", verb="bind") == {"200": 50}

    # With a certificate the same question is heard: the pod of this UID does not exist.
    answer = await service.ask_extender("bind", bind, tls=trusting(ca, client=ca.issue_cert("kube-scheduler")))
    assert "not in its cluster state" in answer["Error"]


def settings_with_tls(ca: trustme.CA, folder: Path) -> Json:
    """Certificates written into `folder`, for the listener and for kube-scheduler."""
    paths = {name: str(folder / f"{name}.pem") for name in ("ca", "server", "server-key", "client", "client-key")}
    server, client = ca.issue_cert("127.0.0.1"), ca.issue_cert("kube-scheduler")
    ca.cert_pem.write_to_path(paths["ca"])
    for name, certificate in (("server", server), ("client", client)):
        certificate.cert_chain_pems[0].write_to_path(paths[name])
        certificate.private_key_pem.write_to_path(paths[f"{name}-key"])
    tls = {"certFile": paths["server"], "keyFile": paths["server-key"], "clientCAFile": paths["ca"]}
    scheduler = {"caFile": paths["ca"], "certFile": paths["client"], "keyFile": paths["client-key"]}
    return {"listeners": {"extender": {"tls": tls}}, "extender": {"schedulerTLS": scheduler}}


def trusting(ca: trustme.CA, *, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """What a client needs that trusts `ca`, and shows the certificate `client` if it has one."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context
