"""What guides show can be used as it stands, and what they name is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.settings import schema
from tests.support.layers import LAYERS

GUIDES = Path("docs/guides")
SOURCES = Path("service/src/slackwater")


def keys(part: dict[str, Any], definitions: dict[str, Any], at: str = "") -> set[str]:
    """The path of every key that a file may have, without the marks of lists."""
    found: set[str] = set()
    for key, value in part["properties"].items():
        found.add(path := f"{at}{key}")
        options = (value, value.get("items", {}), *value.get("anyOf", ()))
        if target := next((option["$ref"] for option in options if "$ref" in option), None):
            found |= keys(definitions[target.rpartition("/")[2]], definitions, f"{path}.")
    return found


def test_every_key_that_takes_the_place_of_a_flag_is_there() -> None:
    text = (GUIDES / "from-cluster-autoscaler.md").read_text()
    rows = re.findall(r"^\| (`--.*?) \| (.*?) \| (.*?) ?\|$", text, re.MULTILINE)
    assert len(rows) > 50
    whole = schema()
    known = keys(whole, whole["$defs"])
    named = {key for _, ours, why in rows for key in re.findall(r"`([\w.]+)`", f"{ours} {why}") if "." in key}
    assert {key for key in named if key.startswith(("autoscaler.", "listeners."))} <= known
    assert [flags for flags, ours, why in rows if ours == "none" and not why] == [], "why not"
    flags = [flag for cell, _, _ in rows for flag in re.findall(r"`(--[\w-]+)`", cell)]
    assert len(flags) == len(set(flags)) > 90


@pytest.mark.parametrize("name", ["adding-a-predicate", "adding-a-provider"])
def test_a_guide_to_the_sources_names_files_that_there_are(name: str) -> None:
    named = re.findall(
        rf"`((?:{LAYERS}|tests)/[\w/.]*)`",
        (GUIDES / f"{name}.md").read_text(),
    )
    assert len(named) > 8
    assert [path for path in named if not (SOURCES / path).exists() and not Path(path).exists()] == []


def test_pictures_are_drawings_that_say_what_they_show() -> None:
    for path in Path("docs/pictures").glob("*.svg"):
        assert re.search(r"<title>.+</title>", path.read_text()), path
    pages = Path("docs/index.md").read_text() + Path("docs/concepts.md").read_text()
    shown = re.findall(r"\(pictures/(\w[\w-]*)\.svg\)", pages)
    assert sorted(shown) == sorted(path.stem for path in Path("docs/pictures").glob("*.svg"))


def test_every_page_is_in_the_sites_contents() -> None:
    contents = Path("mkdocs.yml").read_text()
    navigation = yaml.safe_load(contents)["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(navigation)))
    pages = {path.relative_to("docs").as_posix() for path in Path("docs").rglob("*.md")}
    assert {page for page in pages - listed if not re.match(r"adr/(superseded/)?\d", page)} == set()
