"""The findings of `check` on a KubeSchedulerConfiguration."""

from dataclasses import dataclass
from typing import Literal

#: `error`: kube-scheduler refuses the file, or Slackwater cannot keep its promises. `warning`: it works worse than it
#: could, or is unsafe. `advice`: right in some clusters; does not count as a finding for the exit code.
Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A trap in the file: its place (`extenders[0].ignorable`), its name, why it is a problem, and what to write instead."""

    path: str
    trap: str
    why: str
    fix: str
    severity: Severity = "error"

    @property
    def counts(self) -> bool:
        """Does the finding make the exit code of the check non-zero?"""
        return self.severity != "advice"

    def __str__(self) -> str:
        return f"{self.severity}: {self.path or 'the file'}: {self.trap}: {self.why}; {self.fix}"
