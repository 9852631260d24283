"""One browser for the tests of a module; each test has a page of its own in it, which shares nothing with the others."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.browser.page import a_browser


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """Headless Chromium; its start takes longer than most tests."""
    assert anyio_backend == "asyncio", "Playwright needs asyncio"
    async with a_browser() as found:
        yield found
