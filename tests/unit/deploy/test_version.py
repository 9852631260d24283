"""One version: what `make version` says and sets."""

import shutil
from pathlib import Path

import pytest

import slackwater
import slackwater_protocol
from deploy.version import PLACES, NotThere, found, main, set_everywhere

ROOT = Path(__file__).parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that have the version."""
    for file, _, _ in PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_all_places_have_the_version_of_both_packages() -> None:
    assert {version for _, version in found()} == {slackwater_protocol.__version__} == {slackwater.__version__}


def test_a_new_version_is_set_everywhere_and_nothing_else_changes(copy: Path) -> None:
    assert main(["7.8.9rc1"], copy) == 0
    assert {version for _, version in found(copy)} == {"7.8.9rc1"}
    chart = (copy / "deploy/chart/Chart.yaml").read_text()
    assert "\nversion: 7.8.9-rc.1\n" in chart, "charts follow SemVer"
    assert '\nappVersion: "7.8.9rc1"\n' in chart
    set_everywhere(slackwater.__version__, copy)
    for file, _, _ in PLACES:
        assert (copy / file).read_text() == (ROOT / file).read_text()


@pytest.mark.parametrize("file", sorted({file for file, _, _ in PLACES}))
def test_a_place_with_another_version_is_found(copy: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (copy / file).read_text()
    (copy / file).write_text(text.replace(slackwater.__version__, "99.0.0", 1))
    assert main([], copy) == 1
    assert f"99.0.0     {file}" in capsys.readouterr().err


def test_a_place_that_has_gone_is_named(copy: Path) -> None:
    (copy / "deploy/chart/Chart.yaml").write_text("apiVersion: v2\n")
    with pytest.raises(NotThere, match=r"deploy/chart/Chart\.yaml: .* is there 0 times"):
        set_everywhere("7.8.9", copy)


@pytest.mark.parametrize("wrong", ["v1.2.3", "1.2", "1.2.3-rc1", "latest", "1.2.3 "])
def test_what_is_no_version_is_refused_before_anything_is_written(copy: Path, wrong: str) -> None:
    assert main([wrong], copy) == 2
    assert {version for _, version in found(copy)} == {slackwater.__version__}
