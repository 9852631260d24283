"""What a build leaves behind, by a Go that only pretends."""

import threading
from pathlib import Path

import pytest
import yaml

from tests.controlplane.fakego import install_fake_go
from tests.support.controlplane.build import STEPS, WAITING, BuildStep, build, find, join_stages
from tests.support.controlplane.errors import BuildFailed
from tests.support.controlplane.recipe import TARGETS
from tests.support.controlplane.toolchain import GoCommands, clean_environment


def environ_with(bin_folder: Path, cache: Path) -> dict[str, str]:
    return {"PATH": f"{bin_folder}:/usr/bin:/bin", "SLACKWATER_CACHE_DIR": str(cache)}


def test_a_build_makes_five_binaries_and_the_stages(tmp_path: Path) -> None:
    bin_folder, _ = install_fake_go(tmp_path)
    environ = environ_with(bin_folder, tmp_path / "cache")

    binaries = build(environ=environ)

    assert all(binaries.of(target.name).read_text() == "binary\n" for target in TARGETS)
    stages = [stage["metadata"]["name"] for stage in yaml.safe_load_all(binaries.kwok_stages.read_text())]
    assert sorted(stages) == [
        "node-heartbeat-with-lease",
        "node-initialize",
        "pod-complete",
        "pod-delete",
        "pod-ready",
        "pod-ready-again",
        "pod-resize",
    ]
    assert find(environ) == binaries


def test_a_second_build_runs_no_go_command_but_the_question_for_its_version(tmp_path: Path) -> None:
    bin_folder, calls = install_fake_go(tmp_path)
    environ = environ_with(bin_folder, tmp_path / "cache")
    assert find(environ) is None
    first = build(environ=environ)
    calls.unlink()
    steps: list[BuildStep] = []

    assert build(steps.append, environ=environ) == first
    assert calls.read_text() == "env GOVERSION\n"
    assert steps == []


def test_progress_names_every_step_in_order_and_counts_packages(tmp_path: Path) -> None:
    bin_folder, _ = install_fake_go(tmp_path)
    steps: list[BuildStep] = []

    build(steps.append, environ=environ_with(bin_folder, tmp_path / "cache"))

    done = [step for step in steps if step.state == "done"]
    assert tuple(step.name for step in done) == STEPS
    assert [step.index for step in done] == list(range(1, len(STEPS) + 1))
    assert {step.total for step in steps} == {len(STEPS)}
    assert {step.packages for step in done if step.name in {target.name for target in TARGETS}} == {2}


def test_of_two_processes_that_build_at_once_one_waits_and_says_so(tmp_path: Path) -> None:
    bin_folder, calls = install_fake_go(tmp_path)
    environ = environ_with(bin_folder, tmp_path / "cache")
    other_waits = threading.Event()
    others_steps: list[BuildStep] = []

    def other_progress(step: BuildStep) -> None:
        others_steps.append(step)
        other_waits.set()

    other = threading.Thread(target=build, args=[other_progress], kwargs={"environ": environ})

    def progress(step: BuildStep) -> None:
        if (step.name, step.packages, step.state) == ("etcd", 0, "running"):
            other.start()
            assert other_waits.wait(10)

    build(progress, environ=environ)
    other.join(10)

    assert [step.name for step in others_steps] == [WAITING]
    assert calls.read_text().count("build -v") == len(TARGETS)


def test_a_failing_build_shows_the_end_of_the_output_and_the_log_and_leaves_no_entry(tmp_path: Path) -> None:
    bin_folder, _ = install_fake_go(tmp_path, failing="kube-scheduler")
    environ = environ_with(bin_folder, tmp_path / "cache")

    with pytest.raises(BuildFailed) as failure:
        build(environ=environ)

    message = str(failure.value)
    assert "kube-scheduler: go exited with 3" in message
    assert "| kube-scheduler: no such package" in message
    assert str(failure.value.log) in message
    assert "first line" in failure.value.log.read_text()
    assert find(environ) is None


def test_a_go_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho started\nsleep 600 & wait\n")
    go.chmod(0o755)
    commands = GoCommands(go=go, log=tmp_path / "log", environ={"PATH": "/usr/bin:/bin"})

    # The sleeping child holds the pipe too: its end is seen before ten minutes only if it was ended as well. The program has
    # to come so far that it prints something, however slow the machine is.
    for seconds in (0.2, 2.0, 20.0):
        with pytest.raises(BuildFailed, match=rf"slow: took over {seconds:g} s") as failure:
            commands.run("slow", tmp_path, ["build"], deadline_seconds=seconds)
        if "started" in str(failure.value):
            break
    assert f"slow: took over {seconds:g} s\n  | started" in str(failure.value)


def test_what_would_change_the_result_is_kept_from_go() -> None:
    cleaned = clean_environment({"GOFLAGS": "-mod=mod -race", "GOOS": "plan9", "GOPROXY": "kept", "HOME": "/h"})

    assert cleaned == {
        "GOPROXY": "kept",
        "HOME": "/h",
        "GOGC": "300",
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }


def test_a_release_of_kwok_without_a_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"node/fast/node-initialize\.yaml"):
        join_stages(tmp_path)
