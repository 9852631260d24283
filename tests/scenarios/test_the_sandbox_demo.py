"""`slackwater demo` as people start it: ready in seconds, pods run, and it ends by itself."""

import re
import socket
import subprocess
import sys

from tests.bench.procstat import cpu_seconds_finely


def shown(duration: str) -> tuple[str, float]:
    """What the demo says, and the seconds of the processor that it had taken when it was ready."""
    command = [sys.executable, "-m", "slackwater", "demo", "--nodes", "5", "--pods", "30", "--duration", duration]
    said, until_ready = "", 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            said += line
            if line.startswith("Ready after"):
                until_ready = cpu_seconds_finely(demo.pid)
    assert demo.returncode == 0, said
    assert "Traceback" not in said
    assert until_ready, said
    return said, until_ready


def test_the_demo_is_ready_within_five_seconds_and_binds_its_pods() -> None:
    """Of the processor: the machine has other things to do as well while tests run, and then four seconds are few."""
    for duration in ("4s", "30s", "120s"):
        said, until_ready = shown(duration)
        assert until_ready < 5
        bound = re.search(r"(\d+) pods bound and seen, .* (\d+) over Total", said)
        assert bound is not None, said
        assert bound[2] == "0"
        if int(bound[1]) >= 30:
            return
    raise AssertionError(said)


def test_a_port_that_is_taken_is_one_line_and_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "slackwater", "demo", "--duration", "1s", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    refused, way_out = [line for line in ended.stderr.splitlines() if line.startswith("slackwater: ")]
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused
    assert way_out == "slackwater: --port names another port"
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
