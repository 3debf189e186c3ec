"""The page of `hakmem report` in a real browser: what it shows is what the snapshot says, and it can be used."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from cli_support import Tool
from report_support import HOSTILE, MIB, save, sites, snapshot, superslab_map

pytest.importorskip("selenium", reason="selenium is missing (tools/requirements.txt)")
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

Browser = webdriver.Chrome
LONGEST_SECONDS = 60


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium without a window, with a home of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no chromium or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    home = tmp_path_factory.mktemp("browser")
    for word in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={home}",
        "--window-size=1100,900",
    ):
        options.add_argument(word)
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # as root it refuses to start with one
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    short = {**os.environ, "TMPDIR": "/tmp"}  # it has a socket there, whose path has 108 bytes at the most
    found = webdriver.Chrome(options=options, service=Service(driver, env=short))
    found.set_page_load_timeout(LONGEST_SECONDS)
    yield found
    found.quit()


@pytest.fixture
def page(browser: Browser, tool: Tool, tmp_path: Path) -> Path:
    """A page with everything, open in the browser."""
    files = [save(tmp_path, "map.json", superslab_map()), save(tmp_path, "sites.json", sites())]
    files += [save(tmp_path, f"{i}.json", snapshot(1_000_000 + 500 * i, (100 + 50 * i) * MIB)) for i in range(5)]
    done = tool("report", "-o", "page.html", "--from", *files)
    assert done.returncode == 0, done.stderr
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")
    browser.get(f"file://{tmp_path}/page.html")
    return tmp_path / "page.html"


def all_of(browser: Browser, selector: str) -> List[WebElement]:
    found: List[WebElement] = browser.find_elements(By.CSS_SELECTOR, selector)
    return found


def one(browser: Browser, selector: str) -> WebElement:
    (found,) = all_of(browser, selector)
    return found


def size(value: int) -> str:
    """Of our own, not the tool's: three places, in the unit that fits."""
    for unit, amount, below in (("GiB", 1 << 30, 0.05), ("MiB", MIB, 0.5)):
        if value >= amount * (1 - below / 1024):
            return f"{value / amount:.{2 if value < 9.995 * amount else 1}f} {unit}"
    return f"{value} B" if value < 1024 else f"{value / 1024:.0f} KiB"


def at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def test_every_number_is_the_snapshots(page: Path, browser: Browser) -> None:
    truth = snapshot(1_002_000, 300 * MIB)
    script = (
        "return Array.from(document.querySelectorAll('[data-path]'), "
        "e => [e.dataset.path, e.dataset.value, e.dataset.unit, e.textContent])"
    )
    shown = browser.execute_script(script)
    assert json.loads(browser.execute_script("return document.getElementById('snapshot').textContent")) == truth
    for path, value, unit, text in shown:
        expected = at(truth, path)
        assert int(value) == expected, path
        assert text == (size(expected) if unit == "bytes" else f"{expected:,}"), path
    paths = {path for path, *_ in shown}
    wanted = {"memory.resident", "parts.live", "events.refill", "learning.epochs"} | {
        f"classes.{i}.free_bytes" for i in range(4)
    }
    assert wanted <= paths


def test_the_equation_and_the_bar(page: Path, browser: Browser) -> None:
    truth = snapshot(1_002_000, 300 * MIB)
    amounts = {
        e.get_attribute("data-part"): int(e.get_attribute("data-value")) for e in all_of(browser, ".legend [data-part]")
    }
    assert sum(amounts.values()) == truth["memory"]["resident"]
    assert amounts["free_in_slabs"] == truth["parts"]["free_in_slabs"]
    whole = sum(int(e.text) for e in all_of(browser, ".legend [data-part]"))
    assert one(browser, "#equation").text.startswith(f"resident {whole} MiB = live ")
    for part in all_of(browser, ".bar rect"):
        key = part.get_attribute("class")[len("part-") :]
        assert float(part.get_attribute("width")) == pytest.approx(
            100 * amounts[key] / truth["memory"]["resident"], abs=0.01
        )


def test_the_time_line(page: Path, browser: Browser) -> None:
    points = {}
    for line in all_of(browser, "polyline"):
        pairs = line.get_attribute("points").split()
        points[line.get_attribute("data-line")] = [tuple(map(float, pair.split(","))) for pair in pairs]
    assert set(points) == {"resident", "live", "cached"}
    assert [x for x, _ in points["live"]] == [0, 25, 50, 75, 100]
    resident = [snapshot(0, (100 + 50 * i) * MIB)["memory"]["resident"] for i in range(5)]
    # All lines on one scale, whose uppermost mark is at the top.
    top = all_of(browser, ".axis span")[4].get_attribute("textContent")
    assert top == "600.0 MiB"
    for name, values in (("resident", resident), ("live", [(100 + 50 * i) * MIB + 123 for i in range(5)])):
        heights = [(100 - y) / 100 for _, y in points[name]]
        assert heights == pytest.approx([value / (600 * MIB) for value in values], abs=0.001)
    plot = one(browser, "#plot")
    plot.send_keys(Keys.HOME)
    assert one(browser, "#moment").text.startswith(
        f"0.00 s: resident {size(resident[0])}, live 100.0 MiB, cached 96.0 MiB"
    )
    plot.send_keys(Keys.ARROW_RIGHT)
    assert one(browser, "#moment").text.startswith(f"0.50 s: resident {size(resident[1])}")
    assert plot.get_attribute("aria-valuenow") == "1"


def column(browser: Browser, number: int, table: str = "classes") -> List[float]:
    script = (
        "return Array.from(document.querySelectorAll(`#${arguments[1]}-table tbody tr`), "
        "r => Number(r.cells[arguments[0]].firstElementChild.dataset.value))"
    )
    found: List[float] = browser.execute_script(script, number, table)
    return found


def cells(browser: Browser, table: str) -> List[List[str]]:
    script = (
        "return Array.from(document.querySelectorAll(`#${arguments[0]}-table tbody tr`), "
        "r => Array.from(r.cells, c => c.textContent))"
    )
    found: List[List[str]] = browser.execute_script(script, table)
    return found


def test_the_class_table_sorts(page: Path, browser: Browser) -> None:
    truth = snapshot()["classes"]
    heads = all_of(browser, "#classes-table th button")
    free = [head.text for head in heads].index("free")
    before = column(browser, 0)
    assert before == [row["bytes"] for row in truth]
    heads[free].click()
    assert column(browser, free) == sorted((row["free_bytes"] for row in truth), reverse=True)
    assert column(browser, 0) == [row["bytes"] for row in sorted(truth, key=lambda row: -row["free_bytes"])]
    heads[free].click()
    assert column(browser, free) == sorted(row["free_bytes"] for row in truth)
    assert all_of(browser, "#classes-table th")[free].get_attribute("aria-sort") == "ascending"
    heads[0].send_keys(Keys.ENTER)
    assert column(browser, 0) == sorted(before, reverse=True)
    assert len(all_of(browser, "#classes-table th[aria-sort]")) == 1


def test_lifetimes_by_site(page: Path, browser: Browser) -> None:
    """What the answer says, what asked for most first; a blank where nothing was freed."""
    truth = sites()["sites"]
    bars = all_of(browser, "#lifetimes-table .bars")
    assert [list(map(int, e.get_attribute("data-lifetimes").split())) for e in bars] == [
        row["lifetimes"] for row in truth
    ]
    assert [e.text.strip() for e in bars] == ["█··▃············", "·······█·······▄", ""]
    assert bars[1].get_attribute("aria-label") == "64 to 128 ms: 5, over 16 s: 2"
    assert column(browser, 1, "lifetimes") == [row["alloc_bytes"] for row in truth]
    assert column(browser, 2, "lifetimes") == [row["inuse_objects"] for row in truth]
    assert column(browser, 3, "lifetimes") == [sum(row["lifetimes"]) for row in truth]
    found = cells(browser, "lifetimes")
    assert [row[1] for row in found] == [size(row["alloc_bytes"]) for row in truth]
    assert [row[5:] for row in found] == [["under 1 ms", "100.0%"], ["64 to 128 ms", "0.0%"], ["none freed", ""]]
    names = [e.get_attribute("title") for e in all_of(browser, "#lifetimes-table tbody th")]
    places = [["+0x10", "+0x1010", "+0x2010"], ["+0x20", "+0x1020", "+0x2010"], ["+0x30", "+0x2010"]]
    assert [re.findall(r"\+0x\d+", name) for name in names] == places
    assert "200.0 MiB allocated; about 407 blocks freed, 98.3% of them within 16 ms" in one(browser, "#lifetimes").text
    median = all_of(browser, "#lifetimes-table th button")[3]
    assert median.text == "median"
    median.click()
    assert column(browser, 5, "lifetimes") == [7, 0, -1]
    median.click()
    assert column(browser, 5, "lifetimes") == [-1, 0, 7]


def test_pinned_memory_by_site(page: Path, browser: Browser) -> None:
    """What holds most comes first; what holds nothing is left out."""
    truth = [row for row in sites()["sites"] if row["pinned"]["bytes"]]
    assert column(browser, 1, "pinned") == [row["pinned"]["bytes"] for row in truth] == [90 * MIB, 20 * MIB]
    assert column(browser, 3, "pinned") == [row["inuse_bytes"] for row in truth]
    found = cells(browser, "pinned")
    empty = [row["pinned"]["bytes"] / (row["pinned"]["bytes"] + row["block_bytes"]) for row in truth]
    assert [row[5] for row in found] == [f"{100 * one:.1f}%" for one in empty]
    assert [row[2] for row in found] == ["81.8%", "18.2%"]
    assert "110.0 MiB free between live blocks" in one(browser, "#pinned").text
    assert one(browser, 'nav a[href="#pinned"]').text == one(browser, "#pinned h2").text


def frame(browser: Browser, value: int) -> WebElement:
    return one(
        browser, f'.flame button[data-value="{value}"]:not([data-depth="0"]):not([data-depth="1"])[data-depth="2"]'
    )


def test_the_flame_graph_zooms(page: Path, browser: Browser) -> None:
    whole = one(browser, '.flame button[data-depth="0"]')
    assert int(whole.get_attribute("data-value")) == 100 * MIB
    widest, other = frame(browser, 60 * MIB), frame(browser, 30 * MIB)
    room = whole.rect["width"]
    assert widest.rect["width"] == pytest.approx(0.6 * room, abs=2)
    assert other.rect["width"] == pytest.approx(0.3 * room, abs=2)
    other.click()
    assert other.rect["width"] == pytest.approx(room, abs=2)
    assert not widest.is_displayed() and whole.is_displayed()
    other.send_keys(Keys.ESCAPE)
    assert widest.is_displayed() and widest.rect["width"] == pytest.approx(0.6 * room, abs=2)
    whole.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.get_attribute("data-depth") == "1"
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element == widest
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == other
    other.send_keys(Keys.ENTER)
    assert not widest.is_displayed()
    one(browser, "#flame-reset").click()
    assert widest.is_displayed()
    assert len(all_of(browser, '.flame button[tabindex="0"]')) == 1


def test_the_flame_graph_is_searched(page: Path, browser: Browser) -> None:
    search = one(browser, "#flame-search")
    search.send_keys("+0x1020")
    assert re.fullmatch(r"\d+ found, 30\.0%", one(browser, "#flame-status").text)
    search.send_keys("nothing like it")
    assert one(browser, "#flame-status").text == "0 found, 0.0%"


def test_the_map(page: Path, browser: Browser) -> None:
    truth = superslab_map()["superslabs"]
    tiles = all_of(browser, ".tile")
    assert [tile.get_attribute("data-address") for tile in tiles] == [one["address"] for one in truth]
    for tile, superslab in zip(tiles, truth):
        fields = tile.find_elements(By.CSS_SELECTOR, "rect")
        assert [int(field.get_attribute("data-resident")) for field in fields] == [
            slab["resident"] for slab in superslab["slabs"]
        ]
    first = tiles[0].find_elements(By.CSS_SELECTOR, "rect")
    assert first[0].get_attribute("class") == "slab-span" and first[2].get_attribute("class") == "slab-unknown absent"
    tiles[0].click()
    resident = sum(slab["resident"] for slab in truth[0]["slabs"])
    assert f"superslab 0x7f0000000000: {size(resident)} resident, in a huge page" in one(browser, "#tile-readout").text
    tiles[0].send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == tiles[1]
    assert HOSTILE in one(browser, "#tile-readout").text


def test_no_hostile_name_does_anything(page: Path, browser: Browser) -> None:
    assert browser.title == "4.json (process 4711): memory"
    assert not all_of(browser, "img")
    assert HOSTILE in one(browser, ".decisions").text
    assert browser.get_log("browser") == []


def test_nothing_is_loaded(page: Path, browser: Browser) -> None:
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    # The rule that forbids it holds: the page itself cannot load injected elements.
    browser.execute_script(
        "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'}))"
    )
    browser.execute_script(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: \"document.title='broken in'\"}))"
    )
    assert browser.title == "4.json (process 4711): memory"
    said = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "Content Security Policy" in said


def widths(browser: Browser) -> Dict[str, int]:
    return {
        "page": browser.execute_script("return document.documentElement.scrollWidth"),
        "window": browser.execute_script("return document.documentElement.clientWidth"),
    }


def test_narrow_windows(page: Path, browser: Browser) -> None:
    """Nothing sticks out at 400 pixels, and letters stay readable."""
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    found = widths(browser)
    assert found["page"] <= found["window"] == 400
    smallest = (
        "return Math.min(...Array.from(document.querySelectorAll('p, li, td, th, dd, summary'), "
        "e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert browser.execute_script(smallest) >= 11.5
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [1300, 1000])
def test_tables_do_not_scroll_sideways(page: Path, browser: Browser, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    # With every figure that a heap can have, the widest values, and a function of C++.
    browser.execute_script(
        "for (const one of document.querySelectorAll('td.num')) one.textContent = '123,456,789';"
        "for (const one of document.querySelectorAll('#sites-table td:not(.num), #classes-table td:not(.num)'))"
        "  one.textContent = 'std::vector<std::unordered_map<long, std::string>>::_M_realloc_insert'.repeat(3);"
    ) if width == 1300 else None
    found = browser.execute_script(
        "return Array.from(document.querySelectorAll('.wide'), "
        "e => [e.querySelector('table').id, e.scrollWidth, e.clientWidth])"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert len(found) >= 4
    assert [one for one in found if one[1] > one[2]] == []


def luminance(browser: Browser, name: str) -> float:
    red, green, blue = browser.execute_script(
        f"return getComputedStyle(document.body).{name}.match(/[0-9]+/g).slice(0, 3).map(Number)"
    )
    return (0.21 * red + 0.72 * green + 0.07 * blue) / 255


def test_light_and_dark(page: Path, browser: Browser) -> None:
    for scheme, is_dark in (("light", False), ("dark", True)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        back, ink = luminance(browser, "backgroundColor"), luminance(browser, "color")
        assert (back < ink) is is_dark
        assert abs(back - ink) > 0.7
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_links_open_what_they_lead_to_and_paper_shows_all(page: Path, browser: Browser) -> None:
    part = one(browser, "#part-cached")
    assert part.get_attribute("open") is None
    one(browser, '.legend a[href="#part-cached"]').click()
    assert part.get_attribute("open") is not None
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert all(e.get_attribute("open") is not None for e in all_of(browser, "details"))
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert one(browser, "#part-metadata").get_attribute("open") is None
    assert part.get_attribute("open") is not None


def test_everything_has_a_name(page: Path, browser: Browser) -> None:
    """What can be reached by the keyboard says what it is; headings go down without a gap."""
    for element in all_of(browser, "button, input, [tabindex], a"):
        named = (
            element.get_attribute("aria-label")
            or element.get_attribute("title")
            or element.get_attribute("textContent")
        )
        assert named or element.accessible_name, element.get_attribute("outerHTML")
    levels = [int(e.tag_name[1]) for e in all_of(browser, "h1, h2, h3, h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert one(browser, "html").get_attribute("lang") == "en"


def test_without_a_script(browser: Browser, page: Path) -> None:
    """All that can be seen is there, also where scripts are off."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"file://{page}")
        assert len(all_of(browser, ".tile")) == 2 and len(all_of(browser, "polyline")) == 3
        assert frame(browser, 60 * MIB).is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
