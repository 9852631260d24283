"""One running service for all tests of this folder."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.running import Target


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    log = tmp_path_factory.mktemp("fuzz") / "service.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )
        with process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, Path(log).read_text()[-2000:]
            with Target(json.loads(line), log) as found:
                yield found
            assert process.poll() is None, "the service has ended"
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(timeout=120) == 0
