"""The commands where Python has no Unix: the modules that Windows lacks are blocked, and output is cp1252."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.cli.main import main, make_parser
from tests.support.configuration import HEADER
from tests.support.manifests import GROUP, node_labels, node_manifest, pod_manifest

#: Runs the command lines of its input one after another, and prints the exit code of each as the last line.
PROGRAM = """
import json, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty", "syslog", "uvloop"):
    sys.modules[name] = None
from slackwater.cli.main import main
print("\\n" + json.dumps([main(line) for line in json.load(sys.stdin)]))
"""
ASKED = [
    ["simulate", "placement"],
    ["simulate", "scale-up"],
    ["simulate", "scale-down"],
    ["simulate", "consolidate"],
    ["worth"],
    ["explain", "pod", "shop/web-2"],
    ["explain", "node", "n1"],
    ["explain", "group", "blue"],
]


def codes(folder: Path, lines: list[list[str]]) -> tuple[list[int], str]:
    """The exit codes, and what was written to the standard error."""
    environ = {**os.environ, "PYTHONIOENCODING": "cp1252", "HOME": str(folder)}
    environ.pop("KUBECONFIG", None)
    program = (sys.executable, "-c", PROGRAM)
    done = subprocess.run(program, check=False, input=json.dumps(lines).encode(), env=environ, capture_output=True)
    assert done.returncode == 0, done.stderr.decode("cp1252")
    return json.loads(done.stdout.splitlines()[-1]), done.stderr.decode("cp1252")


def test_commands_that_ask_a_file_or_describe_themselves_run(tmp_path: Path) -> None:
    nodes = [node_manifest(name, labels=node_labels(name, "blue")) for name in ("n1", "n2")]
    pods = [pod_manifest("a", cpu="3", on="n1"), pod_manifest("web-2", cpu="3", nodeSelector={GROUP: "blue"})]
    cluster, config = tmp_path / "cluster.json", tmp_path / "slackwater.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    config.write_text(HEADER)
    (commands,) = (each.choices for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction))
    asked = [[*words, "--cluster", str(cluster), *form] for words in ASKED for form in ([], ["-o", "table"])]
    configured = [["config", name, str(config)] for name in ("check", "rbac")]
    alone = [["config", "schema"], ["scheduler-config"], ["completion", "bash"]]
    lines = [*([name, "--help"] for name in commands), *asked, *configured, *alone]
    seen, errors = codes(tmp_path, lines)
    assert [line for line, code in zip(lines, seen, strict=True) if code != 0] == [], errors


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_what_runs_the_service_says_in_one_line_that_it_needs_unix(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main([command]) == 2
    want = f"slackwater: {command} is not supported on Windows: run it on Linux or macOS, in WSL, or as the image\n"
    assert capsys.readouterr().err == want
