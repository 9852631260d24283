"""What the workflow of a release asks of the commit, and what rights its jobs have."""

import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.release import main
from deploy.version import PLACES, set_everywhere

ROOT: Final = Path(__file__).parents[3]
WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.yml"))
CHANGELOG: Final = """\
# Changelog

<!-- sections of releases are put in below this line -->

## 7.8.9 (2026-12-24)
### Added
- Snow.

## 7.8.8 (2026-12-01)
- Rain.
"""


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """The files of a commit that may be tagged v7.8.9."""
    for file, _, _ in PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    set_everywhere("7.8.9", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d/README.md").write_text("What fragments are.\n")
    return tmp_path


def test_a_commit_that_is_ready_has_nothing_against_its_tag(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "v7.8.9"], tagged) == 0
    assert capsys.readouterr() == ("", "")


def test_every_place_with_another_version_than_the_tag_is_named(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "v7.9.0"], tagged) == 1
    said = capsys.readouterr().err
    for file, _, _ in PLACES:
        assert re.search(rf"^{file}: .*: got 7\.8\.9, want 7\.9\.0, as the tag v7\.9\.0 says$", said, re.MULTILINE)
    assert "CHANGELOG.md: has no section `## 7.9.0 (DATE)` with something in it\n" in said


def test_a_tag_without_its_v_is_refused(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "7.8.9"], tagged) == 1
    assert capsys.readouterr().err == "tag 7.8.9: want v and the version, such as v7.8.9\n"


def test_fragments_that_nobody_would_read_are_named(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tagged / "changelog.d/+snow.added.md").write_text("Snow.\n")
    assert main(["check", "v7.8.9"], tagged) == 1
    assert "changelog.d: 1 fragments are in no section, such as +snow.added.md" in capsys.readouterr().err


def test_the_notes_are_the_section_of_the_version(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notes", "7.8.9"], tagged) == 0
    assert capsys.readouterr().out == "### Added\n- Snow.\n"


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        (CHANGELOG.replace("- Snow.", "").replace("### Added\n", ""), "has no section `## 7.8.9 (DATE)`"),
        (CHANGELOG.replace("7.8.9 (2026-12-24)", "Unreleased"), "has a section Unreleased"),
    ],
)
def test_a_changelog_without_the_section_has_no_notes(
    tagged: Path, capsys: pytest.CaptureFixture[str], changelog: str, said: str
) -> None:
    (tagged / "CHANGELOG.md").write_text(changelog)
    assert main(["notes", "7.8.9"], tagged) == 1
    assert main(["check", "v7.8.9"], tagged) == 1
    assert capsys.readouterr().err.count(said) == 2


# --- the workflows --------------------------------------------------------------------------------------------------------


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(path.read_text())["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_by_commit_and_their_version_is_said(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_an_action_has_one_commit_in_all_workflows() -> None:
    pinned = {line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text())}
    assert len({line.partition("@")[0] for line in pinned}) == len(pinned)


def test_each_job_of_a_release_has_only_the_rights_that_it_needs() -> None:
    (release,) = (path for path in WORKFLOWS if path.name == "release.yml")
    assert yaml.safe_load(release.read_text())["permissions"] == {}
    rights = {name: job["permissions"] for name, job in jobs(release).items()}
    read, sign = {"contents": "read"}, {"id-token": "write"}
    attest = {**sign, "attestations": "write"}
    assert rights == {
        "check": read,
        "image": read,
        "files": {**read, **attest},
        "registry": {**attest, "packages": "write"},
        "wheels": {**read, **sign},
        "announce": {"contents": "write"},
    }


def test_secrets_reach_only_the_job_that_pushes_and_code_of_the_repository_never_runs_beside_them() -> None:
    for path in WORKFLOWS:
        for name, job in jobs(path).items():
            if "secrets." in yaml.safe_dump(job):
                assert (path.name, name) == ("release.yml", "registry")
                assert not [step for step in job["steps"] if "checkout" in step.get("uses", "")]
            for step in job["steps"]:
                if "checkout" in step.get("uses", ""):
                    assert step["with"]["persist-credentials"] is False


def test_what_others_name_reaches_a_shell_by_the_environment_only() -> None:
    """A tag or a variable in the text of a script would be run as a part of it."""
    scripts = [step["run"] for path in WORKFLOWS for job in jobs(path).values() for step in job["steps"] if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script] == []
