"""Certificates of the control plane: who signs whom, for how long."""

import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.controlplane.pki import Pki, make_pki, write_private


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return make_pki(tmp_path / "pki", now=datetime.now(UTC))


def handshake(pki: Pki, trusting: ssl.SSLContext, name: str) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pki.serving_cert, pki.serving_key)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        # A client that refuses is what the tests look at, not the server's view of it.
        with theirs, contextlib.suppress(OSError):
            serving.wrap_socket(theirs, server_side=True).close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        with ours:
            trusting.wrap_socket(ours, server_hostname=name).close()
    finally:
        server.join(10)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1"])
def test_the_serving_certificate_is_valid_for_loopback_under_the_ca(pki: Pki, name: str) -> None:
    handshake(pki, ssl.create_default_context(cafile=str(pki.ca_file)), name)


def test_it_is_refused_under_another_ca_and_for_another_name(pki: Pki, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other", now=datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pki, ssl.create_default_context(cafile=str(other.ca_file)), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pki, ssl.create_default_context(cafile=str(pki.ca_file)), "127.0.0.2")


def test_it_is_refused_a_year_later(tmp_path: Path) -> None:
    old = make_pki(tmp_path, now=datetime.now(UTC) - timedelta(days=366))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(old, ssl.create_default_context(cafile=str(old.ca_file)), "127.0.0.1")


def test_every_file_is_readable_by_its_owner_only(pki: Pki) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in pki.ca_file.parent.iterdir()}

    assert len(modes) == 5
    assert set(modes.values()) == {0o600}


def test_a_file_that_others_could_read_is_replaced_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)

    write_private(path, b"new")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
