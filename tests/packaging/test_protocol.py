"""slackwater-protocol on its own: for authors of agents, who have no service, and whose checker should understand it."""

import http.server
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Install, run

GUIDE = ROOT / "docs" / "guides" / "writing-an-agent.md"
MODULES = sorted(path.stem for path in (ROOT / "protocol/src/slackwater_protocol").glob("[a-z]*.py"))


@pytest.fixture(scope="module")
def client(install: Install) -> Path:
    """The interpreter of an environment with the protocol and its client."""
    return install(Path(sys.executable), ["slackwater-protocol[client]"]) / "python"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's program."""
    [program] = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    path = tmp_path_factory.mktemp("agent") / "agent.py"
    path.write_text(program)
    return path


def test_it_is_installed_without_the_service_and_every_module_but_the_client_is_imported(install: Install) -> None:
    python = install(Path(sys.executable), ["slackwater-protocol"]) / "python"
    assert "agent_client" in MODULES
    run(python, "-c", f"import {', '.join(f'slackwater_protocol.{name}' for name in MODULES if name != 'agent_client')}")
    refused = run(python, "-c", "import slackwater", check=False)
    assert "No module named 'slackwater'" in refused.stderr


def test_a_strict_checker_understands_the_guides_program(client: Path, agent: Path) -> None:
    mypy = Path(sys.executable).with_name("mypy")
    cache = agent.with_name("cache")
    checked = run(
        mypy, "--strict", "--python-executable", client, "--cache-dir", cache, agent.name, cwd=agent.parent, check=False
    )
    assert checked.stdout == "Success: no issues found in 1 source file\n"


def test_a_strict_checker_finds_what_is_wrong_in_it(client: Path, agent: Path) -> None:
    wrong = agent.with_name("wrong.py")
    wrong.write_text(agent.read_text().replace("in_use=has, metrics", 'in_use="4Gi", metrics'))
    mypy = Path(sys.executable).with_name("mypy")
    cache = agent.with_name("cache")
    checked = run(
        mypy, "--strict", "--python-executable", client, "--cache-dir", cache, wrong.name, cwd=agent.parent, check=False
    )
    assert 'incompatible type "str"; expected "Resources"' in checked.stdout


class Scheduler(http.server.BaseHTTPRequestHandler):
    """Permits what is asked, but at most 1.5 CPUs."""

    asked: list[dict[str, object]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body)
        resources = body["resources"]
        permit = {"vCPUs": min(resources["vCPUs"], 1.5), "mem": resources["mem"]}
        answer = json.dumps({"permit": permit}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing: the test's own output is enough."""


@contextmanager
def scheduler() -> Iterator[tuple[str, list[dict[str, object]]]]:
    asked: list[dict[str, object]] = []
    handler = type("Handler", (Scheduler,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join(10)


def test_the_guides_program_runs(client: Path, agent: Path) -> None:
    with scheduler() as (url, asked):
        done = run(client, agent, url, "default", "vm-a", cwd=agent.parent)
    assert done.stdout == "may use 1500m CPU and 8 GiB\n"
    assert [body["resources"] for body in asked] == [{"vCPUs": n, "mem": m} for n, m in ((1, "4Gi"), (2, "8Gi"), (1, "4Gi"))]
    assert [body["lastPermit"] for body in asked][:2] == [None, {"vCPUs": 1, "mem": "4Gi"}]
