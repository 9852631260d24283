"""changelog.d: fragments have a known type and say something; they make a section of the changelog."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from slackwater import __version__

ROOT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
FRAGMENTS = sorted(path for path in (ROOT / SETTINGS["directory"]).iterdir() if path.name not in SETTINGS["ignore"])
TYPES = {each["directory"] for each in SETTINGS["type"]}


def test_a_fragment_is_called_as_towncrier_expects_it() -> None:
    """It passes over a file with another name, and nobody would notice."""
    wrong = [path.name for path in FRAGMENTS if not re.fullmatch(rf"(\+[a-z0-9-]+|\d+)\.({'|'.join(TYPES)})\.md", path.name)]
    assert wrong == []


def test_a_fragment_says_something() -> None:
    assert [path.name for path in FRAGMENTS if len(path.read_text().split()) < 5] == []


def test_the_changelog_has_the_place_for_new_sections_once() -> None:
    assert (ROOT / SETTINGS["filename"]).read_text().count(SETTINGS["start_string"]) == 1


def test_towncrier_makes_a_section_of_all_fragments() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", __version__, "--date", "2026-12-01"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"## {__version__} (2026-12-01)\n" in done.stdout
    for path in FRAGMENTS:
        assert path.read_text().splitlines()[0] in done.stdout
