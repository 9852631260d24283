"""What pages name exists: Events, effects, metrics, log lines, files, commands with their options, keys of the settings."""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest

from deploy.documents.pages import metrics
from slackwater.app.settings import schema
from slackwater.cli.main import make_parser
from slackwater.model import effects
from tests.unit.docs.test_guides import keys

SOURCES: Final = [
    path.read_text() for path in sorted([*Path("service/src").rglob("*.py"), *Path("protocol/src").rglob("*.py")])
]
#: All but the ADRs and the changelog, which are about the past.
PAGES: Final = sorted(
    [*Path("docs").glob("*.md"), *Path("docs/guides").glob("*.md"), Path("README.md"), Path("CONTRIBUTING.md")]
)
each_page: Final = pytest.mark.parametrize("page", PAGES, ids=str)


def prose(page: Path) -> str:
    """A page without its blocks of code and generated parts."""
    return re.sub(
        r"^ *```.*?^ *```$|<!-- generated: settings.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )


# --- Events ---------------------------------------------------------------------------------------------------------------


def _constants(module: ast.Module) -> dict[str, ast.expr]:
    named = (item for item in module.body if isinstance(item, ast.AnnAssign) and item.value is not None)
    return {item.target.id: item.value for item in named if isinstance(item.target, ast.Name) and item.value is not None}


def _calls(module: ast.AST, name: str) -> Iterator[ast.Call]:
    """The calls of a function or method of this name."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and name == getattr(node.func, "id", getattr(node.func, "attr", None)):
            yield node


def _texts(argument: ast.expr, constants: Mapping[str, ast.expr], bound: Mapping[str, ast.expr]) -> str:
    """The text of an argument: of a literal, a constant of the module, or a parameter that is `bound`."""
    if isinstance(argument, ast.Name):
        argument = bound[argument.id] if argument.id in bound else constants[argument.id]
    assert isinstance(argument, ast.Constant)
    return str(argument.value)


def _events_of(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The reason, type and kind of object of each Event that the module writes. Where a function passes its parameters on, its
    calls say them."""
    constants = _constants(module)
    for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        for call in _calls(function, "Announce"):
            passed = [argument.id for argument in call.args[2:4] if isinstance(argument, ast.Name)]
            parameters = [each.arg for each in function.args.args if each.arg != "self"]
            callers = list(_calls(module, function.name)) if {*passed} & {*parameters} else [call]
            about = next((str(ast.literal_eval(each.value)) for each in call.keywords if each.arg == "about"), "Pod")
            for caller in callers:
                bound = dict(zip(parameters, caller.args, strict=True)) if caller is not call else {}
                kind, reason = (_texts(argument, constants, bound) for argument in call.args[2:4])
                yield reason, kind, about


def test_every_event_is_listed_with_its_type_and_object_and_every_listed_one_is_written() -> None:
    written = {event for text in SOURCES if "Announce(" in text for event in _events_of(ast.parse(text))}
    table = Path("docs/names.md").read_text().partition("## Events")[2]
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", table, re.MULTILINE)
    assert len(listed) == len(set(listed)) > 8
    assert written == set(listed)
    named = {reason for page in PAGES for reason in re.findall(r"Events? `(\w+)`|`(\w+)` Events?", prose(page))}
    assert {reason for either in named for reason in either if reason} - {reason for reason, _, _ in listed} == set()


# --- effects, metrics, log lines ------------------------------------------------------------------------------------------


def test_the_effects_of_the_metrics_are_all_that_the_dispatcher_sends() -> None:
    text = " ".join(Path("docs/operations.md").read_text().split())
    listed = re.findall(r"`(\w+)`", text.partition("- `effect` is the API call:")[2].partition("`verdict` is")[0])
    assert sorted(listed) == sorted(effect.__name__ for effect in get_args(effects.ApiEffect))


@cache
def _series() -> frozenset[str]:
    """The names of all metrics, and of the series of histograms."""
    known = re.findall(r"^\| `(\w+)` \| (\w+)", metrics(), re.MULTILINE)
    ends = (f"{name}_{end}" for name, kind in known if kind == "histogram" for end in ("bucket", "sum", "count"))
    return frozenset({*(name for name, _ in known), *ends})


@each_page
def test_every_metric_of_a_page_is_one_that_there_is(page: Path) -> None:
    named = set(re.findall(r"\b((?:slackwater|cluster_autoscaler)_[a-z_]+\*?)", page.read_text())) - {"slackwater_protocol"}
    begun = {name for name in named if name[-1] == "*"}
    assert named - begun - _series() == set()
    assert [name for name in begun if not any(each.startswith(name[:-1]) for each in _series())] == []


#: All sources, with texts that go on in the next line joined.
_OURS: Final = re.sub(r'"\s+f?"', "", "\n".join(SOURCES))
#: Texts of several words in backquotes that are no log line or other text of ours.
_OTHER_TEXTS: Final = re.compile(r"(make|helm|kubectl|pipx|choice:|type:|name:|enabled:|headroom:) .*|[a-z]+: (true|false)")


@each_page
def test_a_text_that_a_page_quotes_is_one_that_the_service_writes(page: Path) -> None:
    """Log lines and refusals: people search for them."""
    quoted = re.findall(r"`([a-z][a-z',;:]*(?: [a-z',;:]+)+)`", prose(page))
    assert [text for text in quoted if text not in _OURS and not _OTHER_TEXTS.fullmatch(text)] == []


# --- files ----------------------------------------------------------------------------------------------------------------

_FILES: Final = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
_PATHS: Final = {*_FILES, *(str(parent) for file in _FILES for parent in Path(file).parents)}
_LAST_PARTS: Final = {"/".join(path.split("/")[-count:]) for path in _PATHS for count in range(1, path.count("/") + 2)}
#: Files that the reader writes or gets, and what a command or a release makes.
_READERS: Final = re.compile(
    r"(changes|scheduler)\.yaml|(policy|queue)\.json|axe\.min\.js|ISSUE\.TYPE\.md|pkg/registry/.*|slackwater-V\..*|\.(spdx\.json|proto)|(dist|tests/output|build)/.*|.*-X|\.github/CODEOWNERS"
)
#: Pages whose files are resolved: decisions in force, too.
_WITH_FILES: Final = [*PAGES, *sorted(Path("docs/adr").glob("0*.md")), *sorted(Path().glob("*/README.md"))]
_TOP: Final = {path.split("/")[0] for path in _FILES if "/" in path}


@pytest.mark.parametrize("page", _WITH_FILES, ids=str)
def test_every_file_in_backquotes_exists(page: Path) -> None:
    """Any end of its path may be named. A path without a known ending counts if it begins with a folder of ours."""
    layers = {path.name for path in Path("service/src/slackwater").iterdir()}
    wrong = []
    for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)*/?)`", prose(page)):
        is_file = re.search(r"\.(py|md|ya?ml|jsonl?|toml|txt|js|go|proto|svg|lock)$", name)
        if (is_file or ("/" in name and name.split("/")[0] in _TOP | layers)) and not _READERS.fullmatch(name):
            wrong += [name] if name.rstrip("/") not in _LAST_PARTS else []
    assert wrong == []


# --- names of others ----------------------------------------------------------------------------------------------------


_NAMES: Final = Path("docs/names.md")
#: Names with the domains of Kubernetes, Cluster Autoscaler, Karpenter, Descheduler, KAI Scheduler and Neon; no API versions.
_OF_OTHERS: Final = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:kubernetes\.io|x-k8s\.io|karpenter\.sh|kai\.scheduler|neon\.tech)/(?!v\d)[\w.-]+"
)
#: Names of in-tree volume plug-ins are no labels.
_VOLUME_PLUGINS: Final = re.compile(r"kubernetes\.io/(?:aws-ebs|azure-\w+|cinder|gce-pd|no-provisioner|[a-z]+-volume)")


def _names_in_code() -> set[str]:
    texts = (node.value for source in SOURCES for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    found = {text for text in texts if isinstance(text, str) and _OF_OTHERS.fullmatch(text)}
    return {name for name in found if not _VOLUME_PLUGINS.fullmatch(name)}


def test_every_name_of_others_that_the_code_reads_is_on_the_page_and_none_that_it_does_not() -> None:
    """Honoured names are in the first tables, the others in the last, with why."""
    page, _, ignored = _NAMES.read_text().partition("## Events")[0].partition("## Names that Slackwater does not follow")
    listed = [
        {name for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for name in row.strip("`").split("`, `")}
        for part in (page, ignored)
    ]
    read, followed, left = _names_in_code(), *({name for name in each if _OF_OTHERS.fullmatch(name)} for each in listed)
    assert (read - followed, followed - read, left & read) == (set(), set(), set())
    assert min(len(left), len(read) - 40) > 10


# --- commands -------------------------------------------------------------------------------------------------------------


_PARSER: Final = make_parser()


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings}


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found[0] if found else {}


def _all_options(parser: argparse.ArgumentParser) -> set[str]:
    return _options(parser).union(*(_all_options(each) for each in _commands(parser).values()))


@each_page
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    lines = re.findall(r"(?:^ *|`|bin/|kubectl |&& )slackwater ((?:[a-z-]|--)[^`\n#|>&]*)", page.read_text(), re.MULTILINE)
    for line in lines:
        parser: argparse.ArgumentParser
        parser, words = _PARSER, line.split()
        while words and words[0] in _commands(parser):
            parser = _commands(parser)[words.pop(0)]
        assert not (commands := _commands(parser)) or not words or words[0].startswith("-"), f"{line}: one of {[*commands]}"
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= _options(parser), line


#: Options of kube-scheduler, KWOK, kubectl, helm, pip, uv, git, gh, aws, gcloud, az and Cluster Autoscaler's example server.
#: Cluster Autoscaler's own have a test (guides).
_OTHERS: Final = frozenset(
    re.findall(
        r"--[\w-]+",
        """--all --find-links --follow-tags --from-literal --http2-max-streams-per-connection --ignore-missing --key
        --manage-all-nodes --message --namespace --no-build --pip-args --predicate --prefer-binary --repo
        --set --sign --type --values --wait --strict --feature-gates --field-selector --balancing-ignore-label
        --ignore-taint --startup-taint --status-taint
        --assume-role-policy-document --role-name
        --policy-name --policy-document --cluster-name --service-account --role-arn --queue-name --attributes --name
        --event-pattern --rule --targets --patch --filters --location-type --slurpfile
        --branch --ca-cert --cert --cloud-config --depth --disable-cluster-autoscaler --key-cert --no-enable-autoscaling
        --node-pool --resource-group
        --auto-scaling-group-name --auto-scaling-group-names --mixed-instances-policy --min-size --max-size
        --desired-capacity --query""",
    )
)


@each_page
def test_every_option_of_a_page_exists(page: Path) -> None:
    if page.name == "from-cluster-autoscaler.md":
        return
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", page.read_text()))
    assert named - _OTHERS - _our_options() == set()


@cache
def _our_options() -> frozenset[str]:
    """The options of `slackwater`, and of the tools in tests/ and deploy/."""
    tools = (path.read_text() for folder in ("tests", "deploy") for path in Path(folder).rglob("*.py"))
    return frozenset({*_all_options(_PARSER), *(option for text in tools for option in re.findall(r'"(--[a-z-]+)"', text))})


@each_page
def test_every_variable_of_make_in_a_page_exists(page: Path) -> None:
    text = Path("Makefile").read_text()
    named = {
        variable
        for line in re.findall(r"(?:`|^ *)make ([^`\n]*)", page.read_text(), re.MULTILINE)
        for variable in re.findall(r"\b([A-Z_]+)=", line)
    }
    assert {name for name in named if not re.search(rf"\$\({name}\)|ifdef {name}\b", text)} == set()


def test_targets_are_few_and_each_says_what_it_does() -> None:
    text = Path("Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert len(targets) <= 30, "a variant by size or seed is a variable of a target"
    assert targets - set(re.findall(r"^([a-z-]+):.*## \w", text, re.MULTILINE)) == set()


_KEYS: Final = keys(schema(), schema()["$defs"])
#: Keys of `/dumpstate`, and a file.
_NO_KEYS: Final = {"autoscaler.notes", "scheduler.yaml"}


@each_page
def test_every_key_of_a_page_is_one_of_the_configuration(page: Path) -> None:
    sections = {path.split(".")[0] for path in _KEYS}
    named = re.findall(r"`([a-zA-Z]+(?:(?:\[\])?\.[a-zA-Z]+)+)", prose(page))
    wrong = {key for key in named if key.split(".")[0] in sections and key.replace("[]", "") not in _KEYS}
    assert wrong - _NO_KEYS == set()
