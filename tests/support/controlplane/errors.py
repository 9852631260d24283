"""Defines the errors of building and running the real control plane.

ControlPlaneError
├── VersionError       the given version of Kubernetes is not a full version such as 1.35.4
├── ToolchainError     no Go that is new enough, and none could be installed
├── BuildFailed        a go command failed, or took too long
├── ComponentFailed    a component exited by itself
└── NotReady           a component runs, but was not ready before its deadline
"""

from collections.abc import Sequence
from pathlib import Path


class ControlPlaneError(Exception):
    """The base of this package's errors."""


class VersionError(ControlPlaneError):
    """The given version of Kubernetes is not a full version such as 1.35.4. The message says what is wanted."""


class ToolchainError(ControlPlaneError):
    """There is no usable Go toolchain. The message says what was looked for and what to do."""


class BuildFailed(ControlPlaneError):
    """A go command failed or took too long. The message contains the end of its output and the path of the log."""

    def __init__(self, step: str, *, reason: str, output: Sequence[str], log: Path) -> None:
        self.step = step
        self.log = log
        super().__init__(f"building the control plane: {step}: {reason}\n{_quoted(output)}\nwhole output: {log}")


class ComponentFailed(ControlPlaneError):
    """A component exited without being stopped."""

    def __init__(self, component: str, *, exit_code: int, output: Sequence[str], log: Path) -> None:
        self.component = component
        self.exit_code = exit_code
        self.log = log
        super().__init__(
            f"{component} exited with {exit_code}, want it running; its last words:\n{_quoted(output)}\nwhole log: {log}"
        )


class NotReady(ControlPlaneError):
    """A component runs, but was not ready before its deadline."""

    def __init__(self, component: str, *, seconds: float, seen: str, output: Sequence[str], log: Path) -> None:
        self.component = component
        self.log = log
        super().__init__(
            f"{component} is not ready after {seconds:g} s: {seen}; its last words:\n{_quoted(output)}\nwhole log: {log}"
        )


def _quoted(lines: Sequence[str]) -> str:
    return "\n".join(f"  | {line}" for line in lines) or "  | (no output)"
