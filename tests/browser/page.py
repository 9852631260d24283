"""The dashboard in headless Chromium, for tests: a page that notes its requests and complaints, and its computing time."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

#: Waits go by selectors: the page's policy forbids what evaluates text, and tests keep it in force.
DRAWN = "html[data-seq]"
#: Of one step, where others have the processor.
_PATIENCE_MILLISECONDS = 120_000


@dataclass
class Seen:
    """What the browser asked for and complained of."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: Parts of complaints that belong to the test. Nothing is taken off `complaints`: the browser may complain a moment later.
    expected: tuple[str, ...] = ()

    def check(self) -> None:
        others = [text for text in self.complaints if not any(part in text for part in self.expected)]
        assert others == [], others
        assert [url for url in self.requests if not url.startswith(f"{self.url}/")] == []


def clock_text(at: float) -> str:
    """A time as the page shows it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "these tests need the browser `chromium` (apt-get install chromium), or its path in CHROMIUM"
    return found


@asynccontextmanager
async def a_browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=_chromium(), args=["--no-sandbox", "--enable-precise-memory-info"], timeout=_PATIENCE_MILLISECONDS
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def a_page(browser: Browser, url: str, **options: Any) -> AsyncIterator[Seen]:
    """A page with storage and cache of its own."""
    page = await browser.new_page(viewport={"width": 1280, "height": 860}, **options)
    page.set_default_timeout(_PATIENCE_MILLISECONDS)
    seen = Seen(page, url)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    try:
        yield seen
    finally:
        await page.close()
    seen.check()


class Computing:
    """How long the page's main thread computes, without the time that the machine gives to others. `await begin()` first."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def begin(self) -> None:
        self._browser = await self._page.context.new_cdp_session(self._page)
        await self._browser.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before = await self._milliseconds()

    async def since(self) -> float:
        """Milliseconds since the last call, or since the beginning."""
        before, self._before = self._before, await self._milliseconds()
        return self._before - before

    async def _milliseconds(self) -> float:
        metrics = (await self._browser.send("Performance.getMetrics"))["metrics"]
        return float(1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def without_unexplained(seen: Seen) -> None:
    """From its start to its end the browser complains of nothing but objects that nobody explains (503) or that do not exist
    (404)."""
    seen.expected = ("503", "404")
    seen.check()
