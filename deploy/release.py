"""`python -m deploy.release check TAG | notes`: what the workflow `release` asks of the tagged commit.

`check` says what keeps the commit from being the release that the tag names: another version in one of its places, no section
of the changelog, fragments that are not in it. `notes` prints that section. Exit status: 0, or 1 with each problem on stderr.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from deploy.version import NotThere, found

_ROOT: Final = Path(__file__).parents[1]
_FRAGMENTS: Final = "changelog.d"
_NO_FRAGMENT: Final = "README.md"


class NoSection(Exception):
    """The changelog does not have the version."""


def problems(tag: str, root: Path = _ROOT) -> Iterator[str]:
    """What is wrong with a release of this tag; nothing if it can be made."""
    try:
        places = dict(found(root))
    except (NotThere, OSError) as err:
        yield f"version: {err}"
        return
    version = tag.removeprefix("v")
    if version == tag:
        yield f"tag {tag}: want v and the version, such as v{next(iter(places.values()))}"
    yield from (
        f"{place}: got {said}, want {version}, as the tag {tag} says" for place, said in places.items() if said != version
    )
    try:
        notes(version, root)
    except NoSection as err:
        yield str(err)
    left = sorted(path.name for path in (root / _FRAGMENTS).glob("*.md") if path.name != _NO_FRAGMENT)
    if left:
        yield f"{_FRAGMENTS}: {len(left)} fragments are in no section, such as {left[0]}; `towncrier build` writes them there"


def notes(version: str, root: Path = _ROOT) -> str:
    """The version's section of the changelog, without its heading. NoSection if there is none or nothing in it."""
    parts = re.split(r"^## (.+)\n", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if "Unreleased" in sections:
        raise NoSection("CHANGELOG.md: has a section Unreleased, want all of it in a version's")
    text = next((text.strip() for title, text in sections.items() if title.split(" (")[0] == version), "")
    if not text:
        raise NoSection(f"CHANGELOG.md: has no section `## {version} (DATE)` with something in it")
    return f"{text}\n"


def main(arguments: Sequence[str] | None = None, root: Path = _ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("check").add_argument("tag")
    what.add_parser("notes").add_argument("version")
    given = parser.parse_args(arguments)
    if given.what == "check":
        wrong = list(problems(given.tag, root))
        print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
        return int(bool(wrong))
    try:
        print(notes(given.version, root), end="")
    except NoSection as err:
        print(err, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
