"""`python -m tests.support.controlplane [--kubernetes X] [--print]`: builds the control plane's binaries into the
cache."""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.support.controlplane.build import build
from tests.support.controlplane.errors import ControlPlaneError
from tests.support.controlplane.progress import shown_on
from tests.support.controlplane.recipe import TARGETS


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the binaries unless they are in the cache. Returns the exit status: 0 if they exist, 1 if they could not be built,
    130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.controlplane", description=__doc__)
    parser.add_argument("--kubernetes", metavar="X", help="another version of Kubernetes than the default, for example 1.35.4")
    parser.add_argument("--print", action="store_true", help="print the path of each file, one a line")
    asked = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        with shown_on(sys.stderr) as progress:
            binaries = build(progress, kubernetes=asked.kubernetes)
    except ControlPlaneError as err:
        print(err, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was compiled so far is kept by Go", file=sys.stderr)
        return 130
    if asked.print:
        for path in (*(binaries.of(target.name) for target in TARGETS), binaries.kwok_stages):
            print(path)
    else:
        print(f"control plane in {binaries.directory} ({time.monotonic() - started:.1f} s)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
