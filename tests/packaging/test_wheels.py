"""Both wheels in empty environments: what is in them, and that they run there, for each Python that this machine has."""

import json
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.app.settings import schema
from tests.packaging.conftest import ROOT, UV, Install, interpreter, run
from tests.support.pages import commands

USING = """\
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
autoscaler: {{enabled: true, providers: {}}}
"""
PROVIDERS = {"externalgrpc": '{externalgrpc: {address: "127.0.0.1:1"}}', "aws": "{aws: {tags: {k: v}}}"}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
}


def wheel_of(wheels: Path, name: str) -> Path:
    return wheels / f"{name}-{__version__}-py3-none-any.whl"


@pytest.mark.parametrize("name", ["slackwater", "slackwater_protocol"])
def test_a_wheel_is_typed_and_has_neither_tests_nor_tools(wheels: Path, name: str) -> None:
    with zipfile.ZipFile(wheel_of(wheels, name)) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"{name}-{__version__}.dist-info/METADATA").decode()
    assert f"{name}/py.typed" in names
    assert {entry.split("/")[0] for entry in names} == {name, f"{name}-{__version__}.dist-info"}
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert not [entry for entry in names if re.search(r"test|go\.(mod|sum)$|openapi|documents\.py", entry.lower())]


def test_with_uv_the_same_wheels_come_without_a_virtual_environment(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs := tmp_path / "bin").mkdir()
    (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    run("make", "dist", f"DIST={tmp_path / 'dist'}", f"VENV={tmp_path / 'none'}", cwd=ROOT)
    assert not (tmp_path / "none").exists()
    for name in ("slackwater", "slackwater_protocol"):
        assert wheel_of(tmp_path / "dist", name).read_bytes() == wheel_of(wheels, name).read_bytes()


def test_pip_finds_the_wheels_as_the_pages_say(wheels: Path, tmp_path: Path) -> None:
    """Nothing of ours is in an index yet: a stranger's package might be, under the same name."""
    (tmp_path / "dist").symlink_to(wheels)
    lines = {" ".join(each.words[1:]) for each in commands() if each.words[:2] == ["pip", "install"]}
    assert len(lines) > 2
    for line in lines:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", *line.split())
        run(*pip, "--dry-run", "--ignore-installed", "--no-deps", "--no-index", cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "licence"),
    [("slackwater", "Apache-2.0 AND MIT"), ("slackwater_protocol", "Apache-2.0")],  # MIT: what the dashboard loads, see NOTICE
)
def test_a_wheel_carries_the_licence_and_says_which_it_is(wheels: Path, name: str, licence: str) -> None:
    with zipfile.ZipFile(wheel_of(wheels, name)) as wheel:
        (info,) = {entry.partition("/")[0] for entry in wheel.namelist() if ".dist-info/" in entry}
        for file in ("LICENSE", "NOTICE"):
            assert wheel.read(f"{info}/licenses/{file}") == (ROOT / file).read_bytes()
        assert f"License-Expression: {licence}\n".encode() in wheel.read(f"{info}/METADATA")


def test_the_service_brings_the_files_that_it_reads(wheels: Path) -> None:
    source = ROOT / "service" / "src"
    data = [path for path in (source / "slackwater").rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}]
    with zipfile.ZipFile(wheel_of(wheels, "slackwater")) as wheel:
        names = set(wheel.namelist())
    assert len(data) > 20
    assert {path.relative_to(source).as_posix() for path in data} <= names


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", ["windows", "x86_64-apple-darwin", "aarch64-apple-darwin", "aarch64-manylinux_2_40"])
def test_everything_that_the_command_needs_has_wheels(
    wheels: Path, constraints: Path, tmp_path: Path, platform: str, version: str
) -> None:
    """By resolution for platforms that this machine is not, with all extras: nothing is built or installed."""
    (wanted := tmp_path / "wanted.in").write_text("slackwater[aws,externalgrpc,solver]\n")
    of = ("--python", sys.executable, "--python-platform", platform, "--python-version", version, "--only-binary", ":all:")
    # The locked version of cryptography has no wheels for Macs with an Intel processor; docs/install.md says what to add.
    locked = () if platform == "x86_64-apple-darwin" else ("--constraint", constraints)
    found = run(UV, "pip", "compile", "--quiet", *of, "--find-links", wheels, *locked, wanted, cwd=tmp_path)
    names = set(re.findall(r"^([\w.-]+)==", found.stdout, re.MULTILINE))
    assert {"slackwater", "slackwater-protocol", "aiobotocore", "numpy", "highspy", "grpcio", "msgspec"} <= names
    assert ("uvloop" in names) == (platform != "windows")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_service_runs_in_an_empty_folder(install: Install, tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    slackwater = install(python, ["slackwater"]) / "slackwater"
    assert run(slackwater, "--version", cwd=tmp_path).stdout == f"slackwater {__version__}\n"
    plugin = slackwater.with_name("kubectl-slackwater")
    assert run(plugin, "--version", cwd=tmp_path).stdout == f"slackwater {__version__}\n"
    complete = slackwater.with_name("kubectl_complete-slackwater")
    assert run(complete, "expl", cwd=tmp_path).stdout.startswith("explain\t")
    assert json.loads(run(slackwater, "config", "schema", cwd=tmp_path).stdout) == schema()
    for duration in ("5s", "60s"):  # where others have the processor five seconds may be too few
        demo = run(slackwater, "demo", "--duration", duration, "--nodes", "5", "--pods", "20", cwd=tmp_path)
        if re.search(r"^[1-9]\d* pods bound and seen, .* 0 over Total$", demo.stderr, re.MULTILINE):
            return
    raise AssertionError(demo.stderr)


def test_without_the_extra_a_provider_that_needs_it_is_refused_by_name(install: Install, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    slackwater = install(Path(sys.executable), ["slackwater"]) / "slackwater"
    for extra, section in PROVIDERS.items():
        (tmp_path / "slackwater.yaml").write_text(USING.format(section))
        serve = run(slackwater, "serve", "--config", "slackwater.yaml", "--kubeconfig", "kubeconfig", cwd=tmp_path, check=False)
        assert serve.returncode == 2
        assert f"pip install 'slackwater[{extra}]'" in serve.stderr
        assert "Traceback" not in serve.stderr


def test_the_extras_bring_what_the_providers_import(install: Install) -> None:
    python = install(Path(sys.executable), ["slackwater[aws,externalgrpc]"]) / "python"
    run(python, "-c", "import slackwater.adapters.cloud.aws.provider")
    run(python, "-c", "import slackwater.adapters.cloud.externalgrpc.client")
