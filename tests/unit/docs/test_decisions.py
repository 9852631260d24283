"""docs/adr/index.md lists every decision with its title; a superseded one is in a folder of its own and names its successor."""

import re
from pathlib import Path

ADR = Path("docs/adr")
INDEX = (ADR / "index.md").read_text()
IN_FORCE, SUPERSEDED = INDEX.split("## Superseded")


def titles(folder: Path) -> dict[str, str]:
    """The heading of each decision in a folder, by its path from the index."""
    return {page.relative_to(ADR).as_posix(): page.read_text().splitlines()[0] for page in sorted(folder.glob("0*.md"))}


def listed(part: str) -> dict[str, str]:
    """The headings that a part of the index gives, by path, from rows with a second cell that is not empty."""
    rows = re.findall(r"^\| \[(.+?)\]\(([\w/.-]+)\) \| (?:.*\w.*) \|$", part, re.MULTILINE)
    return {path: f"# {title}" for title, path in rows}


def test_the_index_has_each_decision_with_its_title_in_order() -> None:
    assert [*listed(IN_FORCE).items()] == [*titles(ADR).items()]
    assert [*listed(SUPERSEDED).items()] == [*titles(ADR / "superseded").items()]


def test_a_decision_has_the_number_of_its_file_and_no_number_is_used_twice() -> None:
    names = [*titles(ADR), *titles(ADR / "superseded")]
    numbers = [int(path.rpartition("/")[2][:4]) for path in names]
    assert len(set(numbers)) == len(numbers) > 90
    for path, title in {**titles(ADR), **titles(ADR / "superseded")}.items():
        assert title.startswith(f"# {int(path.rpartition('/')[2][:4])}. "), path


def test_a_superseded_decision_says_at_its_top_by_which() -> None:
    for path in titles(ADR / "superseded"):
        head = (ADR / path).read_text().splitlines()[2]
        assert re.match(r"Superseded by (\[ADR \d+\]\(\.\./\d{4}|ADR \d+)", head), path


def test_every_link_of_a_decision_leads_to_a_file() -> None:
    pages = [*ADR.rglob("*.md"), *Path("docs").glob("*.md"), *Path("docs/guides").glob("*.md")]
    dead = [
        f"{page}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([\w./-]+\.md)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert dead == []
