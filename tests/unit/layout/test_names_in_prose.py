"""Names in backticks exist: each one in a docstring or comment of the sources resolves to something in the sources.

A bare name has to occur in the code of its file, or to be a module, class or function of its folder, or a class anywhere.
A dotted name has to begin with a module, a class or a name of its own file, and to end with a name in the code there.
"""

import builtins
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = (ROOT / "service" / "src", ROOT / "protocol" / "src")
LAYERS: Final = {folder.name for folder in (ROOT / "service" / "src" / "slackwater").iterdir() if folder.is_dir()}
#: Fields of Kubernetes' objects and names of other projects' APIs, which our code does not name.
FOREIGN: Final = {
    "AWS_DEFAULT_REGION",
    "Authorization",
    "Error",
    "distinctAttribute",
    "Host",
    "MilliValue",
    "NodeNames",
    "Origin",
    "ParseQuantity",
    "PodUID",
    "Prefer",
    "Upgrade",
    "ValidationError",
    "Value",
    "_created",
    "all",
    "apiVersion",
    "buildExtenders",
    "clientConnection.kubeconfig",
    "compinit",
    "computeUnit",
    "cpus",
    "e",
    "event",
    "firstAvailable",
    "helper.DefaultSelector",
    "ignorePreferredTermsOfExistingPods",
    "kvm",
    "leaderElection",
    "leaseDuration",
    "managedFields",
    "matchLabelKeys",
    "maxSkew",
    "memorySlotSize",
    "memorySlots",
    "metav1.Duration",
    "mismatchLabelKeys",
    "nice",
    "nodeCacheCapable",
    "null",
    "preventPodSchedulingIfMissing",
    "protoVersion",
    "providerIDList",
    "resource.Quantity",
    "resourceVersion",
    "resources.requests",
    "terminationGracePeriodSeconds",
    "time.ParseDuration",
    "timestamp",
    "true",
    "unhealthyPodEvictionPolicy",
    "v1",
    "v4.channel.k8s.io",
    "with",
}
#: Libraries whose errors are named.
LIBRARIES: Final = {"httptools", "msgspec"}
#: The parts of every object of Kubernetes, whose fields are named after a dot.
FOREIGN_ROOTS: Final = {"metadata", "spec", "status"}
_QUOTED: Final = re.compile(r"(?<![`\w])`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`(?!`)")
_COMMENT: Final = re.compile(r"(?:^[ \t]*|[ \t]{2})(#.*)$", re.MULTILINE)
_DEFINED: Final = re.compile(r"^[ \t]*(?:async def|def|class|type) (\w+)|^[ \t]*(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)
_CLASS: Final = re.compile(r"^(?:(?:class|type) )?([A-Z]\w*)(?= = |: Final|[:(\[])", re.MULTILINE)
_RAISES: Final = re.compile(r":raises ([\w., ]+):")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, eq=False)
class Source:
    """One file, as its prose and its code."""

    path: Path
    module: str
    text: str

    @cached_property
    def pieces(self) -> list[str]:
        """Texts in triple quotes have the odd places."""
        return self.text.split('"""')

    @cached_property
    def prose(self) -> str:
        return "\n".join((*self.pieces[1::2], *_COMMENT.findall("\n".join(self.pieces[::2]))))

    @cached_property
    def names(self) -> list[str]:
        """The names in the prose: those in backticks, and of errors after `:raises`."""
        return _QUOTED.findall(self.prose) + [name for names in _RAISES.findall(self.prose) for name in names.split(", ")]

    @cached_property
    def code(self) -> str:
        return _COMMENT.sub("", "\n".join(self.pieces[::2]))

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(r"[A-Za-z_]\w*", self.code))

    @cached_property
    def defined(self) -> frozenset[str]:
        return frozenset(one or other for one, other in _DEFINED.findall(self.code))


def sources() -> Iterator[Source]:
    for root in SOURCES:
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield Source(path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path.read_text("utf-8"))


class Names:
    """What names in prose may refer to."""

    def __init__(self, files: list[Source]) -> None:
        self._modules: dict[str, list[Source]] = {}
        self._packages: set[str] = set()
        self._folders: dict[Path, set[str]] = {}
        self._classes: dict[str, list[Source]] = {}
        for file in files:
            parts = file.module.split(".")
            for at in range(len(parts)):
                self._modules.setdefault(".".join(parts[at:]), []).append(file)
                self._packages.update(".".join(parts[at:to]) for to in range(at + 1, len(parts)))
            self._folders.setdefault(file.path.parent, set()).update(file.defined, parts[-1:])
            self._folders.setdefault(file.path.parent.parent, set()).add(file.path.parent.name)
            for name in _CLASS.findall(file.code):
                self._classes.setdefault(name, []).append(file)
        self._keys = {
            word for file in files for word in file.words if "settings" in file.module or "configuration" in file.module
        }

    def resolves(self, name: str, file: Source) -> bool:
        first, *rest = name.split(".")
        if name in FOREIGN or name in LAYERS or hasattr(builtins, name) or (rest and first in FOREIGN_ROOTS):
            return True
        if rest:
            return self._dotted(name, file) or self._imported(first, rest) or self._setting(name)
        return self._bare(name, file) or ((_HUMP.search(name) or "settings" in file.module) and self._setting(name))

    def _bare(self, name: str, file: Source) -> bool:
        return name in file.words or name in self._folders[file.path.parent] or name in self._classes

    def _dotted(self, name: str, file: Source) -> bool:
        parts = name.split(".")
        if name in self._modules or name in self._packages:
            return True
        head, last = ".".join(parts[:-1]), parts[-1]
        owners: Mapping[str, list[Source]] = self._classes if parts[-2][:1].isupper() else self._modules
        if any(last in owner.words for owner in owners.get(parts[-2] if owners is self._classes else head, ())):
            return owners is self._modules or len(parts) == 2 or self._dotted(head, file)
        if parts[0] in LAYERS:
            return False
        return parts[0] in file.words and all(part in file.words or part in self._folders[file.path.parent] for part in parts)

    def _imported(self, first: str, rest: list[str]) -> bool:
        if first not in sys.stdlib_module_names and first not in LIBRARIES:
            return False
        found: object = importlib.import_module(first)
        for part in rest:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True

    def _setting(self, name: str) -> bool:
        """A key of the configuration file, whose parts are fields of its sections."""
        parts = name.split(".")
        return parts[0] not in LAYERS and all(_HUMP.sub("_", part).lower() in self._keys for part in parts)


FILES: Final = [file for file in sources() if not file.path.name.endswith("_pb2.py")]
NAMES: Final = Names(FILES)


def test_names_in_prose_exist() -> None:
    found = [(file.module, name) for file in FILES for name in file.names if not NAMES.resolves(name, file)]
    assert found == []


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("holds", True),
        ("Holds", True),
        ("cluster.holds", True),
        ("cluster.holds.Holds", True),
        ("Holds.of", True),
        ("autoscaler.scaleDown.unneededTime", True),
        ("time.monotonic", True),
        ("metadata.managedFields", True),
        ("held_things", False),
        ("HeldThings", False),
        ("cluster.held_things", False),
        ("model.holds", False),
        ("cluster.holds.HeldThings", False),
        ("Holds.no_such_method", False),
        ("autoscaler.scaleDown.unwantedTime", False),
        ("time.no_such_clock", False),
        ("scaleSideways", False),
    ],
)
def test_a_name_resolves_only_if_it_exists(name: str, want: bool) -> None:
    (file,) = (file for file in FILES if file.module == "slackwater.cluster.holds")
    assert NAMES.resolves(name, file) is want
