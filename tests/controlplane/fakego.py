"""A stand-in for the go command: a shell script that answers what `build` asks, in milliseconds."""

from pathlib import Path

from tests.support.controlplane.recipe import KWOK_STAGES

SCRIPT = """#!/bin/sh
echo "$@" >> "{calls}"
case "$1 $2" in
  "env GOVERSION") echo "{version}" ;;
  "list -deps") echo fmt ;;
  "list -m") echo "{kwok}" ;;
  "build -v")
    while [ "$1" != -o ]; do shift; done
    case "$2" in */{failing}) echo "first line"; echo "{failing}: no such package" >&2; exit 3 ;; esac
    echo one/package; echo another/package; echo binary > "$2" ;;
esac
"""


def install_fake_go(folder: Path, *, version: str = "go1.26.8", failing: str = "nothing") -> tuple[Path, Path]:
    """Writes the script as `folder`/bin/go; that bin folder, and the file where it records its calls."""
    stages = folder / "kwok" / "kustomize" / "stage"
    for name in KWOK_STAGES:
        (stages / name).parent.mkdir(parents=True, exist_ok=True)
        (stages / name).write_text(f"kind: Stage\nmetadata: {{name: {Path(name).stem}}}\n")
    calls, go = folder / "calls", folder / "bin" / "go"
    go.parent.mkdir()
    go.write_text(SCRIPT.format(calls=calls, version=version, kwok=folder / "kwok", failing=failing))
    go.chmod(0o755)
    return go.parent, calls
