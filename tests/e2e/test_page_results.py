"""The results page in a browser: its tables, distributions, colours and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest

from .browser import assert_fits, open_page
from .page_data import FOLLOWS, MODELS, Example, example, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
LOWER = "core.mse.source.whole"
SIZES = (1440, 820, 390)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Example:
    made = example(tmp_path_factory.mktemp("run"), 24, odd=False)
    published = {"source": "Table 2", "judge": "GPT-4o", "note": "", "models": {"Older-Edit": {}}}
    made.report["tables"][0]["published"] = [published]
    return made


@pytest.fixture(scope="module")
def address(contents: Example, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(contents, tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_page(browser, address) as shown:
        yield shown


def read_location(page: Page) -> dict[str, str]:
    """What the address says is looked at."""
    told = parse_qs(str(page.evaluate("location.hash"))[1:])
    return {name: value for name, (value,) in told.items()}


def columns(made: Example) -> list[str]:
    return [column["id"] for column in made.report["tables"][0]["columns"]]


def leads(made: Example) -> Counter[str]:
    """How many numbers of the table lead, by how surely."""
    table = made.report["tables"][0]
    return Counter(cell["lead"] for row in table["rows"] for cell in row["cells"])


def rows(page: Page) -> list[str]:
    return page.locator(".board tbody:first-of-type th").all_inner_texts()


def test_the_table_is_sorted_by_a_column_best_then_worst_then_as_it_was(page: Page, contents: Example) -> None:
    assert rows(page) == list(MODELS)
    cells = [row["cells"][columns(contents).index(LOWER)] for row in contents.report["tables"][0]["rows"]]
    order = sorted(range(len(MODELS)), key=lambda model: cells[model]["value"])
    best_first = [MODELS[model] for model in order]
    head = page.locator(f"[data-rank='{LOWER}']")
    head.focus()
    page.keyboard.press("Enter")
    assert rows(page) == best_first
    assert page.evaluate("document.activeElement.dataset.rank") == LOWER
    assert page.locator("th[aria-sort=descending]").count() == 1
    head.click()
    assert rows(page) == best_first[::-1]
    page.reload()
    assert rows(page) == best_first[::-1], "the address holds the order"
    head.click()
    assert rows(page) == list(MODELS)
    assert page.locator("th[aria-sort=none]").count() == len(columns(contents))


def test_a_cell_has_its_place_its_interval_and_its_coverage(page: Page, contents: Example) -> None:
    first = contents.report["tables"][0]["rows"][0]["cells"][0]
    cell = page.locator(".board tbody tr").first.locator("td").first
    said = cell.inner_text()
    assert first["text"] in said
    assert first["ends"] in said
    assert f"{first['scored']}/{first['asked']}" in said
    for lead in ("sure", "best"):
        assert page.locator(f".board .{lead}").count() == leads(contents)[lead] > 0
    looks = [
        page.locator(f".board .{lead}").first.evaluate(
            "each => [getComputedStyle(each).fontWeight, getComputedStyle(each).fontStyle]"
        )
        for lead in ("sure", "best")
    ]
    assert looks == [["700", "normal"], ["400", "italic"]]
    assert "Older-Edit" in page.locator(".of-papers").inner_text()


def test_a_cell_leads_to_its_edits_and_back(page: Page, contents: Example) -> None:
    page.locator(".board tbody tr").nth(1).locator("a.cell").nth(1).click()
    assert read_location(page) == {
        "view": "edits", "of": MODELS[1], "dimension": columns(contents)[1], "sort": "worst",
    }  # fmt: skip
    assert page.locator("#f-of").input_value() == MODELS[1]
    page.go_back()
    assert page.locator("#results").is_visible()


def test_the_bars_of_a_distribution_lead_to_their_edits(page: Page, contents: Example) -> None:
    page.select_option("#spread-of", label="psnr.source.whole ↑")
    bars = page.locator(".spread tr").first.locator("rect")
    assert bars.count() > 12, "many values are drawn as parts of the range"
    page.select_option("#spread-of", label="instruction_following ↑")
    levels = page.locator(".spread tr").first.locator("rect")
    counts = [int(text.split()[0]) for text in levels.locator("title").all_text_contents()]
    edits = [e for e, model in enumerate(contents.edits["model"]) if model == 0]
    values = [contents.values(FOLLOWS)[e] for e in edits]
    assert sum(counts) == sum(value is not None for value in values)
    levels.nth(counts.index(max(counts))).click()
    assert f"{max(counts)} of" in page.locator("#count").inner_text()
    page.locator("#f-range").click()
    assert "from" not in read_location(page)


def test_labels_of_close_values_do_not_overlap(page: Page) -> None:
    page.evaluate("""() => {
        const { values } = editjudge.edits;
        values.forEach((each, dimension) => { values[dimension] = each.map(
          (_, edit) => [0.7011, 0.7014, 0.702, 0.71, 0.9][edit % 5]); });
        editjudge.distributions(document.getElementById("distributions"));
    }""")
    page.select_option("#spread-of", label="instruction_following ↑")
    for width in (1280, 420):
        page.set_viewport_size({"width": width, "height": 900})
        ends = page.eval_on_selector_all(".axis span", "all => all.map(each => each.getBoundingClientRect())")
        assert len(ends) > 1
        assert all(left["right"] <= right["left"] for left, right in pairwise(ends))


def test_light_and_dark_by_the_system_and_by_the_switch(browser: Browser, address: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with open_page(browser, address, color_scheme="dark") as page:
        dark = page.evaluate(colour)
        page.locator("#theme").click()
        light = page.evaluate(colour)
        page.reload()
        assert page.evaluate(colour) == light, "the choice is kept"
        page.keyboard.press("t")
        assert page.evaluate(colour) == dark
    assert light == "rgb(255, 255, 255)"
    assert dark != light


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parts = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(v => linear(v / 255));
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const element of document.querySelectorAll("#app *, dialog *")) {
    const texts = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!texts || !element.checkVisibility() || element.closest("svg, select, .aside")) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) low.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
  }
  return [...low];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(browser: Browser, address: str, scheme: str) -> None:
    with open_page(browser, address, color_scheme=scheme) as page:
        assert page.evaluate(CONTRAST) == []
        page.goto(f"{address}#edit=item%201&model={MODELS[0]}")
        page.wait_for_selector("#verdicts details.verdict")
        page.keyboard.press("v")
        page.wait_for_selector(".chances, .reason")
        assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("view", ["", "#view=edits", f"#edit=item%200&model={MODELS[0]}"])
def test_no_window_has_to_be_scrolled_sideways(browser: Browser, address: str, view: str) -> None:
    with open_page(browser, address + view) as page:
        page.wait_for_selector("html[data-ready]", state="attached")
        assert_fits(page, SIZES)


def test_on_a_phone_source_and_result_are_seen_at_once(browser: Browser, address: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with open_page(browser, f"{address}#view=edits", **phone) as page:
        page.locator(".row").first.tap()
        page.wait_for_selector("#panes[style*='--ratio']")
        frames = page.locator("#panes .frame")
        assert frames.count() == 2
        for frame in frames.all():
            box = frame.bounding_box()
            assert box is not None
            assert box["width"] > 150
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= 844
        assert page.evaluate("document.activeElement.id") == "back", "the focus is where one is"
        page.locator("#back").tap()
        assert page.locator("#list").is_visible()


def test_without_scripts_the_table_can_be_read(browser: Browser, address: str, contents: Example) -> None:
    with open_page(browser, address, java_script_enabled=False) as page:
        said = page.locator("noscript").inner_text()
        for name in MODELS:
            assert name in said
        assert page.locator("noscript .sure").count() == leads(contents)["sure"]
        assert page.locator("noscript .best").count() == leads(contents)["best"]
        assert page.locator("#app").is_hidden()


def test_it_prints_what_is_read_and_no_controls(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.locator(".board").first.is_visible()
    assert page.locator("#theme").is_hidden()
    page.evaluate(f"location.hash = '#edit=item%200&model={MODELS[0]}'")
    page.wait_for_selector("#verdicts .verdict")
    assert page.locator("#list").is_hidden()
    assert page.locator("#panes img").first.is_visible()
