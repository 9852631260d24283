"""How people name objects: kubectl's words for kinds, its option for namespaces, and the namespace of a context."""

import json
from pathlib import Path

import pytest

from slackwater.cli.commands.object_names import context_namespace
from slackwater.cli.main import main
from tests.support.http_answers import answering

ANSWER = json.dumps({"object": "", "state": "", "reasons": [], "remedies": [], "minimal": []}).encode()


def kubeconfig(path: Path, current: str | None, **namespaces: str | None) -> str:
    contexts = [
        {"name": name, "context": {"cluster": "c", **({"namespace": of} if of else {})}} for name, of in namespaces.items()
    ]
    path.write_text(json.dumps({"current-context": current, "contexts": contexts}))
    return str(path)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["pod", "shop/web"], "/explain/pods/shop/web"),
        (["po", "web"], "/explain/pods/team/web"),
        (["pods", "web", "-n", "shop"], "/explain/pods/shop/web"),
        (["PO/web", "--namespace=shop"], "/explain/pods/shop/web"),
        (["pod", "shop/web", "-n", "shop"], "/explain/pods/shop/web"),
        (["po", "web", "--context", "other"], "/explain/pods/default/web"),
        (["no", "n1"], "/explain/nodes/n1"),
        (["nodes/n1", "-n", "shop"], "/explain/nodes/n1"),
        (["ng", "pool-a"], "/explain/groups/pool-a"),
        (["permits", "db"], "/explain/permits/team/db"),
    ],
)
def test_objects_are_named_as_kubectl_names_them(
    words: list[str], want: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", "mine", mine="team", other=None))
    with answering(ANSWER) as (url, asked):
        assert main(["explain", *words, "--url", url, "-o", "table"]) == 0
    assert [path for path, _ in asked] == [want]


def test_the_first_file_that_names_a_context_counts(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "a", None, own="one")
    second = kubeconfig(tmp_path / "b", "own", own="two", more="three")
    (tmp_path / "c").write_text("{")
    files = f"{tmp_path}/none:{tmp_path}/c:{first}:{second}"
    assert context_namespace(files, None) == "one"
    assert context_namespace(files, "more") == "three"
    assert context_namespace(files, "nobody") is None


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["explain", "po"], "explain pod: got no name, want NAME or NAMESPACE/NAME"),
        (["explain", "po", "a/b", "-n", "c"], "--namespace: got c and a/b, want one of them"),
        (["history", "no", "a/b"], "history node: got 'a/b', want a name without a slash"),
        (["history", "group", "a"], "argument KIND: invalid choice: 'group' (choose from pod, node)"),
    ],
)
def test_a_name_that_means_nothing_is_refused(words: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"slackwater: {want}"
