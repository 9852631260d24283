"""Ports that are free, and stay so until they are used."""

import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.sandbox.controlplane.errors import ControlPlaneError
from slackwater.sandbox.controlplane.ports import FreePorts, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_that_somebody_listens_on_is_not_given(taken: int) -> None:
    assert not is_free(taken)
    with pytest.raises(ControlPlaneError, match=f"no free port on 127.0.0.1 in {taken}..{taken}"):
        FreePorts(random.Random(1), candidates=range(taken, taken + 1)).take()


def test_no_port_is_given_twice() -> None:
    ports = FreePorts(random.Random(1))

    given = [ports.take() for _ in range(50)]

    assert len(set(given)) == 50


@pytest.mark.skipif(sys.platform != "linux", reason="the range is in a file of Linux")
def test_ports_are_not_those_of_outgoing_connections() -> None:
    ports = FreePorts(random.Random(1))
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    assert not [port for port in (ports.take() for _ in range(50)) if low <= port <= high]
