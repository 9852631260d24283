"""Components end with whoever started them, however that ends."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests.support.controlplane import parent_death

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")

PARENT = """
import os, subprocess, sys, time
command = [sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), "/bin/sleep", "600"]
child = subprocess.Popen(command, start_new_session=True)
while b"sleep" not in open(f"/proc/{child.pid}/cmdline", "rb").read()[:12]:
    time.sleep(0.01)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_program_dies_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, parent_death.__file__], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        assert select.select([child], [], [], 0)[0] == []

        parent.send_signal(signal.SIGKILL)

        assert select.select([child], [], [], 60)[0] == [child]
        os.close(child)


def test_a_program_whose_parent_died_before_its_start_does_not_start() -> None:
    not_the_parent = "1"
    command = [sys.executable, parent_death.__file__, not_the_parent, "/bin/echo", "started"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "process 1, which started this, is gone" in ended.stderr
