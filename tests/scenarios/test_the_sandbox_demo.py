"""`slackwater demo` as people start it: ready in seconds, pods run, and it ends by itself."""

import re
import socket
import subprocess
import sys


def test_the_demo_is_ready_within_five_seconds_and_binds_its_pods() -> None:
    command = [sys.executable, "-m", "slackwater", "demo", "--nodes", "5", "--pods", "30", "--duration", "4s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    ready = re.search(r"Ready after ([0-9.]+) s", done.stderr)
    assert ready is not None, done.stderr
    # The machine has other things to do as well while tests run.
    assert float(ready[1]) < 20
    bound = re.search(r"(\d+) pods bound and seen, .* (\d+) over Total", done.stderr)
    assert bound is not None, done.stderr
    assert int(bound[1]) >= 30
    assert bound[2] == "0"
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_one_line_and_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "slackwater", "demo", "--duration", "1s", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    refused, way_out = [line for line in ended.stderr.splitlines() if line.startswith("slackwater: ")]
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused
    assert way_out == "slackwater: --port names another port"
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
