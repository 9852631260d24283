"""Ports that are free, and stay so until they are used."""

import gc
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.sandbox.free_ports import FreePorts, NoFreePort


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_that_is_listened_on_is_not_given(taken: int) -> None:
    with pytest.raises(NoFreePort, match=f"no free port on 127.0.0.1 in {taken}..{taken}"):
        FreePorts(random.Random(1), candidates=range(taken, taken + 1)).take()


def test_no_port_is_given_twice() -> None:
    ports = FreePorts(random.Random(1))

    given = [ports.take() for _ in range(50)]

    assert len(set(given)) == 50


GIVES_ONE = """
import random, sys
from slackwater.sandbox.free_ports import FreePorts
print(FreePorts(random.Random(1), candidates=range(int(sys.argv[1]), int(sys.argv[2]))).take())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server listen beside a socket that is bound")
def test_a_port_is_given_to_one_process_alone_and_a_server_may_listen_on_it_again_and_again() -> None:
    ports = FreePorts(random.Random(1))
    given, other = ports.take(), ports.take()

    asked = subprocess.run([sys.executable, "-c", GIVES_ONE, str(given), str(given + 1)], capture_output=True, check=False)
    assert b"no free port" in asked.stderr
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", given)) as server,
            socket.create_connection(("127.0.0.1", given)),
            server.accept()[0],
        ):
            pass  # what the server closes first is in TIME_WAIT when the second one starts
    del ports
    gc.collect()
    assert FreePorts(random.Random(1), candidates=range(other, other + 1)).take() == other


@pytest.mark.skipif(sys.platform != "linux", reason="the range is in a file of Linux")
def test_ports_are_not_those_of_outgoing_connections() -> None:
    ports = FreePorts(random.Random(1))
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    assert not [port for port in (ports.take() for _ in range(50)) if low <= port <= high]
