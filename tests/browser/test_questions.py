"""Questions that people ask the dashboard, each answered in at most three clicks; and what happened before."""

import pytest
from playwright.async_api import Browser

from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import History, past_of
from slackwater.model.history import HistoryAction, HistoryEntry, PastOfObject, Remembered
from slackwater.ports.clock import unix_time
from tests.browser.page import DRAWN, a_page, clock_text, without_unexplained
from tests.support.dashboards import AT, IN_DOUBT, a_loop, served, some_decisions, ten_nodes

pytestmark = pytest.mark.anyio


async def test_why_shows_what_happened_before_the_service_started(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    hour_ms, wall_ms = 3_600_000, round(unix_time() * 1000)
    history = History(HistoryPolicy())
    for hours, action, node, why in (
        (26, HistoryAction.REFUSED, "", "0/10 nodes are available: <b>10 Insufficient cpu</b>"),
        (25, HistoryAction.BOUND, "general-1", ""),
        (3, HistoryAction.EVICTED, "general-1", "unneeded for 10m"),
    ):
        history.add(HistoryEntry(at_ms=wall_ms - hours * hour_ms, action=action, pod="shop/web-2", node=node, why=why))
    # Later than the service starts here, however long that takes; the page knows when it did to a second or so.
    history.add(HistoryEntry(at_ms=wall_ms + hour_ms, action=HistoryAction.BOUND, pod="shop/web-2", node="general-2"))

    async def reported(what: Remembered, namespace: str, name: str, since: float | None) -> PastOfObject:
        assert since is None
        return past_of(history, what, f"{namespace}/{name}" if namespace else name, since_ms=None)

    async with (
        served(state_machine, now, loop=a_loop(), decision_log=some_decisions(), what_happened=reported) as url,
        a_page(browser, url, timezone_id="UTC") as seen,
    ):
        page = seen.page
        await page.goto(f"{url}/#/why/pod/shop/web-2")
        await page.wait_for_selector("[data-history] li")
        rows = await page.locator("[data-history] > li").all_inner_texts()
        want = ["refused: 0/10 nodes are available: <b>10 Insufficient cpu</b>", "placed on general-1"]
        want += [
            "evicted from general-1, because the node was being removed: unneeded for 10m",
            "The service started.",
            "placed on general-2",
        ]
        assert len(rows) == len(want)
        for row, part in zip(rows, want, strict=True):
            assert part in row
        assert "26 h ago" in rows[0]
        assert "by scheduler" in rows[0]
        assert "by slackwater" in rows[2]
        await page.goto(f"{url}/#/why/pod/shop/web-3")
        await page.wait_for_selector("#view-why p:has-text('Nothing is kept about it.')")
        await page.goto(f"{url}/#/why/node/general-1")
        await page.wait_for_selector("[data-history] li")
        assert await page.locator("[data-history] > li a").all_inner_texts() == ["shop/web-2"] * 2
        without_unexplained(seen)


#: Questions of people, the links to click from the overview, where the answer is then, and what it says.
QUESTIONS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "is it healthy?": (
        (),
        "#view-overview .health",
        (f"1 node in quarantine, where nothing new is placed: {IN_DOUBT}", "The next audit clears a node", "grave"),
    ),
    "why is report-1 pending?": (
        ("Pending", "default/report-1"),
        "#view-why",
        (
            "Pod default/report-1 is pending: Insufficient cpu on 9 nodes",
            "4.5 CPU short at the closest",
            "lower the request of pod default/report-1 for cpu by 4500m, from 12 to 7500m",
        ),
    ),
    "why did the cluster grow at that time?": (
        ("Time line", "grow"),
        "#view-timeline .story li:first-child",
        (
            clock_text(AT),
            "general from 6 to 9 nodes, for default/report-1, default/report-2",
            "Instead: memory: backing off after: STOCKOUT",
        ),
    ),
    "which drain is stuck, and on what?": (
        ("Drains",),
        "#view-drains article:has-text('general-3')",
        ("1 pod blocked by a disruption budget", "default/web-30", "budget default/web allows no disruption now"),
    ),
    "what would removing this node do?": (
        ("Nodes", "memory-6"),
        "#view-why",
        ("Node memory-6 is removable: the node can be removed", "would move 3 pods:", "default/worker-61"),
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_question_is_answered_in_at_most_three_clicks(browser: Browser, question: str) -> None:
    clicks, where, answer = QUESTIONS[question]
    state_machine, now = ten_nodes()
    async with (
        served(state_machine, now, loop=a_loop(), decision_log=some_decisions()) as url,
        a_page(browser, url, timezone_id="UTC") as seen,
    ):
        await seen.page.goto(url)
        await seen.page.wait_for_selector(DRAWN, state="attached")
        assert len(clicks) <= 3
        for text in clicks:
            await seen.page.locator(f"a:visible:has-text('{text}')").first.click()
        for want in answer:
            await seen.page.wait_for_selector(f"{where}:has-text('{want}')")
        without_unexplained(seen)


async def test_why_a_pod_is_where_it_is_says_what_could_be_instead(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    async with served(state_machine, now, loop=a_loop(), decision_log=some_decisions()) as url, a_page(browser, url) as seen:
        await seen.page.goto(f"{url}/#/why/pod/default/web-00")
        await seen.page.wait_for_selector("#explanation h2:text-is('What could be instead')")
        reported = await seen.page.inner_text("#explanation")
        assert "As of now, not of the time when the pod was placed. general-0 scores" in reported
        assert await seen.page.locator("#explanation table tbody tr").count() == 5
        assert "The others would not:" in reported
