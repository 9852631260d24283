"""Every command and every snippet of the pages is run, or said here why not. tests/cluster/test_pages.py asks a cluster."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
import yaml

from slackwater.app.counterfactual.lines import written
from slackwater.app.settings import loads
from slackwater.cli.main import main, make_parser
from slackwater_protocol.agent import AgentRequest
from tests.support.configuration import HEADER
from tests.support.counterfactual_logs import BEGAN
from tests.support.manifests import node_manifest, pod_manifest
from tests.support.pages import PROGRAMS, Command, commands, needs_cluster, objects_in, run, snippets

COMMANDS: Final = tuple(commands())
PARSER: Final = make_parser()
SNIPPETS: Final = tuple(snippets())
GUIDES: Final = Path("docs/guides").absolute()
#: Texts that name a command and are none, as they lack what it needs.
MENTIONS: Final = frozenset(
    ["helm uninstall", "kubectl describe pod", "kubectl port-forward", "kubectl slackwater", "kubectl slackwater explain"]
) | {"kubectl get ... -o json", "curl /readyz"}
#: What runs nowhere from its page, by its first words, and who runs it instead or why nobody does.
ELSEWHERE: Final = {
    "uv tool install": "tests/cluster/test_first_commands.py types it",
    "pip install": "tests/packaging/test_wheels.py",
    "pipx install": "pip's resolver in a virtual environment of its own: tests/packaging",
    "uv tool update-shell": "changes the shell of whoever runs it",
    "pipx ensurepath": "changes the shell of whoever runs it",
    "slackwater serve": "tests/cluster: every service of these tests is started so",
    "slackwater demo": "tests/scenarios/test_the_sandbox_demo.py",
    "slackwater report": "a service that writes a log: tests/unit/app/test_report_command.py",
    "slackwater replay /var": "it needs a record: tests/scenarios/test_what_a_record_repeats.py",
    "kube-scheduler --config": "tests/cluster/test_deploy.py starts it with what the line before writes",
    "kubectl -n kube-system port-forward": "a port of this machine that others may have: tests/cluster/test_reaching.py",
    "kubectl get nodepools": "needs the types of Karpenter",
    "kubectl patch nodepool": "tests/karpenter has NodePools like that",
    "jq -n --slurpfile": "needs answers of AWS",
    "aws ": "needs an account of AWS",
    "apt-get install": "changes the machine",
    "docker build": "no container engine: tests/unit/deploy/test_image_recipe.py",
    "skopeo copy": "needs a registry",
    "helm push": "needs a registry",
    "git clone": "another project's sources",
    "cd autoscaler": "another project's sources",
    "CGO_ENABLED=0 go build": "another project's sources",
    "kubectl annotate machinedeployment": "needs the types of Cluster API: tests/cluster/test_scale_up.py makes such objects",
    "git tag": "makes a release",
    "git push": "makes a release",
    "git checkout": "makes a release again",
    "ssh-keygen": "needs the key of the release",
    "sha256sum": "needs the files of a release",
    "gh attestation": "needs a release on a forge",
}


def elsewhere(command: Command) -> str | None:
    on_a_log = command.words[1:2] == ["report"] and "--log" in command.words
    return None if on_a_log else next((begin for begin in ELSEWHERE if command.text.startswith(begin)), None)


def is_mention(command: Command) -> bool:
    """Does it only name a command? Ours are asked whether they have what they need."""
    if command.block or command.words[0] != "slackwater" or ">" in command.words:
        return not command.block and command.text in MENTIONS
    try:
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            args = PARSER.parse_command(command.words[1:])
    except SystemExit as done:
        return done.code == 2
    kind = getattr(args, "kind", None)  # KIND/NAME is one word, so the parser cannot ask for a name
    return kind is not None and args.name is None and "/" not in kind


def kind_of(command: Command) -> str:
    program, *rest = command.words
    if elsewhere(command):
        return "elsewhere"
    if is_mention(command):
        return "mention"
    if needs_cluster(command):
        return "cluster"
    if program.endswith("python") and rest[:1] == ["-m"]:
        return "module"
    return program if program in {"make", "slackwater"} else "unknown"


@cache
def kinds() -> Mapping[Command, str]:
    """Of all commands. Parsing them takes a second, which only a worker that asks for it spends."""
    return {command: kind_of(command) for command in COMMANDS}


def of_kind(kind: str) -> list[Command]:
    """The first of each text."""
    return sorted({each.text: each for each in reversed(COMMANDS) if kinds()[each] == kind}.values())


def place(found: Command) -> str:
    return f"{found.page}:{found.line}: {found.text}"


def test_it_is_known_of_every_command_who_runs_it() -> None:
    assert [place(each) for each in of_kind("unknown")] == []
    counts = {kind: len(of_kind(kind)) for kind in ("make", "slackwater", "cluster", "module", "elsewhere")}
    assert min(counts.values()) > 8, counts
    assert {elsewhere(each) for each in COMMANDS} == {None, *ELSEWHERE}
    assert {each.text for each in COMMANDS} >= MENTIONS
    assert [test for test in re.findall(r"tests/[\w/.]+", " ".join(ELSEWHERE.values())) if not Path(test).exists()] == []


def test_every_block_says_what_it_is() -> None:
    """One marked as text may not hide a command."""
    assert {each.language for each in SNIPPETS} == {"yaml", "json", "python", "pycon", "text"}
    texts = [each for each in SNIPPETS if each.language == "text"]
    assert [f"{each.page}:{each.line}" for each in texts if each.text.split()[0] in PROGRAMS] == []


def test_make_knows_every_target_and_takes_its_variables() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for command in of_kind("make"):
        arguments = [word.strip("[]") for word in shlex.split(command.text, comments=True)[1:]]
        done = subprocess.run(["make", "-n", *arguments], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{place(command)}: {done.stderr}"


def test_every_module_that_developers_run_is_there() -> None:
    for command in of_kind("module"):
        assert find_spec(command.words[2]), place(command)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the pages speak of."""
    (fragment,) = (each.text for each in SNIPPETS if each.page == "docs/autoscaler.md")
    (changes,) = (each.text for each in SNIPPETS if each.text.startswith("objects:"))
    labels = {"slackwater.dev/node-group": "pool-a"}
    nodes = [node_manifest(name, labels=labels) for name in ("n1", "n2")]
    cluster = [*nodes, pod_manifest("web-1", on="n1"), pod_manifest("web-2", cpu="14")]
    monkeypatch.chdir(tmp_path)
    Path("slackwater.yaml").write_text(HEADER + fragment)
    Path("changes.yaml").write_text(changes)
    Path("shadow.log").write_bytes(written([BEGAN]))
    for name in ("cluster-autoscaler.yaml", "nodepools.yaml"):
        Path(name).write_text((GUIDES / name).read_text())
    Path("cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster}))
    assert main(["scheduler-config", "--write", "scheduler.yaml"]) == 0


@pytest.mark.usefixtures("reader")
def test_every_command_on_files_does_what_it_should() -> None:
    for command in of_kind("slackwater"):
        text = re.sub(r"--check [FG]\b", "--check scheduler.yaml", command.text)
        code, said = run(re.sub(r"\b(F|FILE)\b", "slackwater.yaml", text))
        assert code == 0, f"{place(command)}: {said}"


@pytest.mark.parametrize("page", sorted({each.page for each in SNIPPETS}))
def test_every_snippet_can_be_used_as_it_stands(page: str) -> None:
    """An object says its apiVersion; what is no object is a part of our configuration, or of a supposition."""
    for snippet in SNIPPETS:
        if snippet.page != page or snippet.language not in {"yaml", "json"}:
            continue
        found = yaml.safe_load(snippet.text) if snippet.language == "yaml" else json.loads(snippet.text)
        assert [each for each in objects_in(found) if "apiVersion" not in each] == [], snippet.line
        if "protoVersion" in found:
            assert AgentRequest.from_body(snippet.text.encode()).problem() is None
        elif snippet.language == "yaml" and "objects" not in found and found.get("apiVersion", "config.").startswith("config."):
            loads(snippet.text if "kind" in found else HEADER + snippet.text)
