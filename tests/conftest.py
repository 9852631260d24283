"""What holds for all tests: Hypothesis' profiles, a garbage collector that skips imported modules, logs, records, repeats."""

import gc
from collections.abc import Iterator
from typing import Final

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.stages.record import install, repeat
from tests.stages.slow import add_option, leave_out
from tests.support.seeds import FRESH

#: A session imports a thousand modules and collects thousands of tests, all of which stay: so garbage is looked for less often.
gc.set_threshold(50_000, 20, 20)

#: `fixed` tries the same examples each time: what a fresh one finds fails nobody else's change. `make soak` sets `fresh`.
#: Neither has a deadline for one example, nor for making it: on a busy machine any may take long; pytest's timeout ends a test
#: that hangs.
PROFILE: Final = "fresh" if FRESH else "fixed"

_UNHURRIED: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _UNHURRIED, derandomize=True)
settings.register_profile("fresh", _UNHURRIED, derandomize=False, print_blob=True)
settings.load_profile(PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items)


def pytest_configure(config: pytest.Config) -> None:
    install(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    repeat(metafunc)


def pytest_collection_finish() -> None:
    """All modules stay: without this each collection of garbage during the tests looks at everything that was imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logs_as_by_default() -> Iterator[None]:
    """A test that configures logging, as commands and simulations do, leaves it to the next one as it was."""
    yield
    structlog.reset_defaults()
