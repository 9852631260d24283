"""Which Go is taken, and how one is installed where there is none."""

from pathlib import Path

import pytest

from tests.controlplane.fakego import install_fake_go
from tests.support.controlplane.toolchain import REQUIREMENTS, Toolchain, install, locate, parse_version


@pytest.mark.parametrize(
    ("text", "want_version"),
    [
        ("go1.26.8\n", (1, 26)),
        ("go1.27rc1", (1, 27)),
        ("go1.26.0 X:nocoverageredesign", (1, 26)),
        ("go2.0", (2, 0)),
        ("devel +b7a85e0003 Thu Oct 1", None),
        ("", None),
    ],
)
def test_versions_of_go(text: str, want_version: tuple[int, int] | None) -> None:
    assert parse_version(text) == want_version


def test_a_new_enough_go_on_the_path_is_taken_and_needs_no_installation(tmp_path: Path) -> None:
    on_path, _ = install_fake_go(tmp_path, version="go1.26.0")
    environ = {"PATH": f"{on_path}:/usr/bin:/bin"}

    found = locate(environ)

    assert found == Toolchain(go=on_path / "go", version=(1, 26))
    assert install(found, environ) is False


@pytest.mark.parametrize("version", ["go1.25.9", "devel +b7a85e0003"])
def test_a_go_that_is_too_old_or_of_unknown_age_is_passed_over(tmp_path: Path, version: str) -> None:
    on_path, _ = install_fake_go(tmp_path, version=version)

    found = locate({"PATH": f"{on_path}:/usr/bin:/bin", "SLACKWATER_CACHE_DIR": str(tmp_path)})

    assert found.wheel == REQUIREMENTS
    assert found.go.is_relative_to(tmp_path / "go-toolchain")


def test_without_any_go_the_pinned_wheel_is_named_before_it_is_installed(tmp_path: Path) -> None:
    found = locate({"PATH": str(tmp_path), "SLACKWATER_CACHE_DIR": str(tmp_path)})

    assert found.wheel == REQUIREMENTS
    assert found.version == (1, 26)
    assert not found.go.exists()


def test_the_pin_has_hashes_and_names_no_host() -> None:
    text = REQUIREMENTS.read_text()

    assert text.count("--hash=sha256:") >= 5
    assert "://" not in text
