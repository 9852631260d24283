"""`python -m deploy.version [NEW]`: says which version this is and whether all places agree, or sets a new one everywhere.

The version is `__version__` of slackwater_protocol. The service, the image and the wheels read it from there; the places below
cannot read and have it written, the chart as helm wants it: 1.2.3-rc.1 for 1.2.3rc1.

Exit status: 0, 1 where a place has another version, 2 for a version that is none.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = "protocol/src/slackwater_protocol/__init__.py"
_ROOT: Final = Path(__file__).parents[1]
_OF_CHARTS: Final = r"^version: "
#: Of each file: what stands before the version and behind it, as regular expressions. Each is there once.
PLACES: Final = (
    (SOURCE, r'^__version__ = "', r'"$'),
    ("service/pyproject.toml", r'"slackwater-protocol==', r'"'),
    ("deploy/chart/Chart.yaml", _OF_CHARTS, r"$"),
    ("deploy/chart/Chart.yaml", r'^appVersion: "', r'"$'),
    ("deploy/kustomization.yaml", r'^- name: slackwater\n  newTag: "', r'"$'),
    ("deploy/shadow/kustomization.yaml", r'^- name: slackwater\n  newTag: "', r'"$'),
    ("deploy/Dockerfile", r"-t slackwater:", r" \."),
    ("docs/install.md", r"skopeo copy oci:dist/slackwater-image:", r" "),
    ("docs/install.md", r"docker://YOUR-REGISTRY/slackwater:", r"$"),
    ("docs/install.md", r"-t YOUR-REGISTRY/slackwater:", r" \."),
    ("docs/quickstart.md", r"skopeo copy oci:dist/slackwater-image:", r" "),
    ("docs/quickstart.md", r"docker://YOUR-REGISTRY/slackwater:", r"$"),
)
#: What Python packages and tags of images take: 1.2.3, 1.2.3rc1.
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class NotThere(Exception):
    """A place does not have exactly one version."""


def as_chart(version: str) -> str:
    """A version as charts have it, which follow SemVer."""
    return re.sub(r"(?<=\d)(a|b|rc)(?=\d)", r"-\1.", version)


def found(root: Path = _ROOT) -> Iterator[tuple[str, str]]:
    """Each place with the version that stands there."""
    for file, before, behind in PLACES:
        text = (root / file).read_text()
        match re.findall(f"{before}(.*?){behind}", text, re.MULTILINE):
            case [version]:
                yield f"{file}: {before.strip('^')}", re.sub(r"-(\w+)\.", r"\1", version) if before == _OF_CHARTS else version
            case several:
                raise NotThere(f"{file}: `{before}` is there {len(several)} times, want once")


def set_everywhere(version: str, root: Path = _ROOT) -> None:
    """Writes the version into each place. NotThere if one is missing; then some may have been written."""
    for file, before, behind in PLACES:
        path = root / file
        written = as_chart(version) if before == _OF_CHARTS else version
        text, count = re.subn(f"({before}).*?({behind})", rf"\g<1>{written}\g<2>", path.read_text(), flags=re.MULTILINE)
        if count != 1:
            raise NotThere(f"{file}: `{before}` is there {count} times, want once")
        path.write_text(text)


def main(arguments: Sequence[str], root: Path = _ROOT) -> int:
    match arguments:
        case []:
            pass
        case [new] if _VERSION.fullmatch(new):
            set_everywhere(new, root)
        case _:
            print(f"want one version such as 0.2.0 or 0.2.0rc1, got {' '.join(arguments)}", file=sys.stderr)
            return 2
    places = dict(found(root))
    if len(set(places.values())) > 1:
        print("\n".join(f"{version:10} {place}" for place, version in places.items()), file=sys.stderr)
        return 1
    print(next(iter(places.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
