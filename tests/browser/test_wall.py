"""What a screen on a wall shows: charts, the map of nodes, a pause, and counts that agree wherever they stand."""

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from slackwater.controllers.leadership.metrics import LeaderStatus
from slackwater.model.events import NodeSeen, PausesSeen, Synced
from slackwater.model.ids import Instant
from slackwater.model.pauses import pauses_of
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP
from tests.browser.page import DRAWN, a_page, without_unexplained
from tests.browser.test_page import VIEWS
from tests.support import installed
from tests.support.builders import a_node
from tests.support.dashboards import INSTANCE_TYPE, a_large_state_machine, a_loop, served, some_decisions, some_use, ten_nodes

pytestmark = pytest.mark.anyio


async def opened(page: Page, url: str, view: str) -> None:
    await page.goto(f"{url}/#/{view}")
    await page.wait_for_selector(DRAWN, state="attached")
    await page.wait_for_selector(f"#view-{view.partition('?')[0].partition('/')[0]}:not([hidden])")


def tile(page: Page, title: str) -> Any:
    return page.locator(".tile", has_text=title)


def first_number(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    assert found is not None, text
    return int(found[0].replace(",", ""))


async def test_a_chart_says_the_value_under_the_pointer_and_its_range_is_in_the_address(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    async with served(state_machine, now, loop=a_loop(), decision_log=some_decisions()) as url, a_page(browser, url) as seen:
        page = seen.page
        await opened(page, url, "overview")
        assert await page.locator(".tile canvas").count() == 8
        plot, line = tile(page, "Nodes").locator(".plot"), tile(page, "Nodes").locator(".caption")
        box = await plot.bounding_box()
        assert box is not None
        for share, want in ((0.25, "8 nodes"), (0.85, "10 nodes")):  # two nodes came 35 minutes ago
            await plot.hover(position={"x": share * box["width"], "y": box["height"] / 2})
            assert re.fullmatch(rf"\d\d:\d\d:\d\d: {want}", await line.inner_text())
            assert "in 15 s" in await tile(page, "Evictions").locator(".caption").inner_text(), "all charts follow the pointer"
        await page.mouse.move(0, 0)
        assert await line.inner_text() == "+2, \N{MINUS SIGN}0 in the last hour"
        assert await tile(page, "Cost an hour").locator(".caption").inner_text() == "USD (formula)"
        await page.click("a:text-is('week')")
        await page.wait_for_selector(".ranges a[aria-current]:text-is('week')")
        assert await page.evaluate("location.hash") == "#/overview?range=week"
        assert (await tile(page, "Nodes").locator(".plot").get_attribute("aria-label") or "").startswith("Nodes, last week")
        without_unexplained(seen)


_PAINTED = """async () => {
  const { BANDS, band } = await import("/dashboard/heatmap.js");
  const colours = BANDS.map((_, at) => getComputedStyle(document.querySelector(`.heat${at}`)).backgroundColor);
  return { at: [0.66, 0.86].map(band), colours: colours.map((each) => each.match(/\\d+/g).map(Number)) };
}"""


def lightness_and_hue(colour: list[int]) -> tuple[float, float, float]:
    """CIELAB of an sRGB colour: in it, equal distances look equal; 2 is just visible."""
    red, green, blue = ((part / 255 + 0.055) / 1.055 if part > 10 else 0.0 for part in colour)
    red, green, blue = red**2.4, green**2.4, blue**2.4
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_66_and_86_percent_look_different_on_the_map_which_sorts_by_group_zone_or_type(
    browser: Browser, scheme: str
) -> None:
    state_machine = a_large_state_machine(24, 4)
    served_here = served(state_machine, Instant(0.0), loop=a_loop(), decision_log=some_decisions())
    async with served_here as url, a_page(browser, url, color_scheme=scheme) as seen:
        page = seen.page
        await opened(page, url, "overview")
        painted = await page.evaluate(_PAINTED)
        colours = [lightness_and_hue(each) for each in painted["colours"]]
        apart = [sum((one - other) ** 2 for one, other in zip(*pair, strict=True)) ** 0.5 for pair in pairwise(colours)]
        low, high = painted["at"]
        assert high - low >= 2, "a step lies between them"
        assert min(apart) > 15, apart
        for by, blocks in (("zone", 3), ("type", 2), ("group", 4)):
            await page.locator("#view-overview label:has-text('Blocks by') select").select_option(by)
            await page.wait_for_selector(f"#view-overview canvas[data-by='{by}']")
            assert f"by={by}" in await page.evaluate("location.hash")
            await opened(page, url, "nodes")
            await page.go_back()
            await page.wait_for_selector("#view-overview:not([hidden])")
            assert await page.locator(".heat canvas").get_attribute("data-blocks") == str(blocks)
        without_unexplained(seen)


async def test_a_standby_says_who_leads_and_that_it_knows_no_costs(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    standby = LeaderStatus(mode="scheduler", leads=False, holder="slackwater-7d4_abc")
    here = served(state_machine, now, loop=None, decision_log=some_decisions(), leader=standby)
    async with here as url, a_page(browser, url) as seen:
        await opened(seen.page, url, "overview")
        await seen.page.wait_for_selector("#state:has-text('; a standby, slackwater-7d4_abc leads')")
        cost = tile(seen.page, "Cost an hour")
        assert (await cost.locator(".value").inner_text(), await cost.locator(".caption").inner_text()) == (
            "\N{EN DASH}",
            "the leader knows it",
        )
        without_unexplained(seen)


async def test_where_use_is_known_it_stands_beside_what_is_reserved(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    use = some_use(state_machine)
    percent = round(100 * use.total.cpu / int(state_machine.state.ledger.columns.total[0].sum()))
    used = served(state_machine, now, loop=a_loop(), decision_log=some_decisions(), node_use=use)
    async with used as url, a_page(browser, url) as seen:
        page = seen.page
        await opened(page, url, "overview")
        cpu = tile(page, "CPU reserved")
        assert await cpu.locator(".caption").inner_text() == f"used now: {percent} %"
        box = await cpu.locator(".plot").bounding_box()
        assert box is not None
        await cpu.locator(".plot").hover(position={"x": 0.8 * box["width"], "y": box["height"] / 2})
        assert re.fullmatch(r"[\d:]+: reserved \d+ %, used \d+ %", await cpu.locator(".caption").inner_text())
        await page.locator("#view-overview label:has-text('Colour by') select").select_option("used-cpu")
        await page.wait_for_selector(".heat canvas[aria-label*='by CPU used']")
        await opened(page, url, "nodes")
        for node, want in (("general-0", False), ("general-1", True)):  # the first was not measured
            bar = page.locator(f"tr[data-key='{node}'] [role=img]").first
            assert ("in use" in (await bar.get_attribute("aria-label") or "")) is want
        without_unexplained(seen)


async def test_a_pause_is_the_first_line_of_every_view_until_it_ends_and_a_shadow_says_so_on_each(browser: Browser) -> None:
    state_machine, now = ten_nodes()
    state_machine.apply(PausesSeen(pauses_of({"all": "since 2026-11-27T10:05:00Z by anna: upgrade"})), now)
    shadow = served(state_machine, now, loop=a_loop(), decision_log=some_decisions(), shadow=True)
    want = [
        "Paused: everything since 2026-11-27T10:05:00Z by anna: upgrade. `slackwater resume` ends it.",
        "Shadow: nothing is written",
    ]
    async with shadow as url, a_page(browser, url) as seen:
        page = seen.page
        for width in (390, 1440):
            await page.set_viewport_size({"width": width, "height": 860})
            for view in (*VIEWS, "why/node/memory-6"):
                await opened(page, url, view)
                await page.wait_for_selector("#pause:not([hidden])")
                assert await page.locator(".notice").all_inner_texts() == want
                boxes = [await page.locator(each).bounding_box() for each in ("#pause", ".notice:not([id])", "#views")]
                places = [(box["y"], box["x"] + box["width"]) for box in boxes if box is not None]
                assert places == sorted(places, key=lambda place: place[0]), "above the view, one below the other"
                assert max(right for _, right in places[:2]) <= width, "and whole"
        state_machine.apply(PausesSeen(()), now)
        await page.wait_for_selector("#pause", state="hidden")
        without_unexplained(seen)


@pytest.mark.parametrize("n_nodes", [10, 300])
async def test_counts_agree_wherever_they_stand(browser: Browser, n_nodes: int) -> None:
    state_machine, now = ten_nodes() if n_nodes == 10 else (a_large_state_machine(n_nodes, 4), Instant(0.0))
    async with served(state_machine, now, loop=a_loop(), decision_log=some_decisions()) as url, a_page(browser, url) as seen:
        page = seen.page
        await opened(page, url, "overview")

        async def badge(view: str) -> int:
            return first_number(await page.inner_text(f"#views a[href='#/{view}'] .count"))

        async def texts(selector: str) -> list[str]:
            found: list[str] = await page.locator(selector).all_inner_texts()
            return found

        nodes = {
            "tile": first_number(await tile(page, "Nodes").locator(".value").inner_text()),
            "badge": await badge("nodes"),
            "map": first_number(await page.get_attribute("#view-overview .heat canvas", "aria-label") or ""),
        }
        pending = {
            "tile": first_number(await tile(page, "Pending pods").locator(".value").inner_text()),
            "badge": await badge("pending"),
        }
        await opened(page, url, "nodes")
        nodes["table"] = first_number(await page.inner_text("#nodes-shown"))
        await opened(page, url, "slack")
        groups = await texts("#view-slack table[aria-label='Free room by node group'] tbody tr td:nth-child(2)")
        left_out = first_number((await texts("#view-slack p.dim"))[0])
        nodes["slack"] = sum(map(first_number, groups)) + left_out
        assert set(nodes.values()) == {n_nodes}, nodes
        await opened(page, url, "pending")
        pending["heading"] = first_number(await page.inner_text("#view-pending [role=status]"))
        several = await texts("#view-pending .card h3 .tag")
        pending["cards"] = await page.locator("#view-pending .card").count() + sum(first_number(each) - 1 for each in several)
        assert len(set(pending.values())) == 1, pending
        for view in ("groups", "drains", "preemptions", "migrations"):
            await opened(page, url, view)
            assert await page.locator(f"#view-{view} article.card").count() == await badge(view), view
        await opened(page, url, "timeline")
        rows = await texts("#view-timeline .story > li")
        folded = [re.search(r"(\d+) \N{MULTIPLICATION SIGN} evict ", row) for row in rows if " evict " in row]
        evicted = sum(1 if found is None else int(found[1]) for found in folded)
        await opened(page, url, "timeline?kind=evict")
        assert evicted == len(await texts("#view-timeline .story > li")) == 3, rows
        without_unexplained(seen)


def many_types(n_nodes: int) -> StateMachine:
    """Nodes of fifty types in fifty groups, with names as clouds give them; the first is not ready."""
    state_machine, now = StateMachine(installed.POLICY), Instant(0.0)
    for number in range(n_nodes):
        labels = {NODE_GROUP: f"general-purpose-{number % 50:02}-spot", INSTANCE_TYPE: f"m7gd.metal-{number % 50}xl"}
        name = f"ip-10-0-{number // 256}-{number % 256}.eu-central-1.compute.internal"
        state_machine.apply(NodeSeen(a_node(name, cpu="16", memory="64Gi", labels=labels, ready=number > 0)), now)
    state_machine.apply(Synced(), now)
    return state_machine


async def test_fifty_types_of_few_nodes_leave_cells_that_can_be_seen_and_long_names_leave_their_marks(browser: Browser) -> None:
    async with (
        served(many_types(60), Instant(0.0), loop=a_loop(), decision_log=some_decisions()) as url,
        a_page(browser, url) as seen,
    ):
        page = seen.page
        await page.set_viewport_size({"width": 390, "height": 860})
        await opened(page, url, "overview?by=type")
        canvas = page.locator("#view-overview .heat canvas")
        await page.wait_for_selector("#view-overview canvas[data-blocks='50']")
        assert float(await canvas.get_attribute("data-cell") or 0) >= 12, "the names alone need the height"
        await page.set_viewport_size({"width": 1440, "height": 860})
        await opened(page, url, "nodes?group=general-purpose-00-spot")
        await page.wait_for_selector("#nodes-shown:has-text('2 of 60 nodes')")
        mark, cell = (
            await page.locator(".tag:text-is('not ready')").bounding_box(),
            await page.locator("th .marked").first.bounding_box(),
        )
        assert mark is not None
        assert cell is not None
        assert mark["x"] + mark["width"] <= cell["x"] + cell["width"] + 1
        await page.locator("#view-nodes label:has-text('Group') select").select_option("general-purpose-07-spot")
        await page.wait_for_selector("#nodes-shown:has-text('2 of 60 nodes')")
        assert await page.evaluate("location.hash") == "#/nodes?group=general-purpose-07-spot"
        await opened(page, url, "nodes")
        await page.wait_for_selector("#nodes-shown:has-text('60 of 60 nodes')")
        without_unexplained(seen)
