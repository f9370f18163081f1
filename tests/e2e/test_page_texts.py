"""Pages over odd data: what has no value is said in words, and no object stands as its type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .browser import open_page
from .page_data import DIMENSIONS, MODELS, Example, example, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
OPENED = f"#edit=item%200&model={MODELS[0]}"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Fields that may be empty are empty, and the services and notes of the run are many."""
    made = example(tmp_path_factory.mktemp("run"), 4)
    report, items = made.report, made.edits["items"]
    report["runs"][0] |= {
        "services": {"generalist.a": "Qwen", "generalist.b": "GPT", "clip.vit_b_32": "ViT"},
        "switches": ["one", "two"], "judges": ["a", "b"], "rounds": 3, "prompts": None,
    }  # fmt: skip
    report["introduction"] = [{"heading": "", "text": "why"}, {"heading": "what", "text": "this"}]
    table = report["tables"][0]
    table["about"] = []
    for row in table["rows"]:
        row["cells"][0] |= {"value": None, "text": "-", "interval": None, "ends": "", "scored": 0,
                            "asked": 0, "counts": {}, "lead": ""}  # fmt: skip
        row["cells"][1] |= {"interval": {"low": None, "high": None, "clusters": 1}}
        row["cells"][2] |= {"sd": 0.0, "imputed": 1, "capped": 2}
        row["cells"][3]["counts"].pop("missing_output", None)
    table["published"] = [{"source": "table 3", "judge": "none", "note": "", "models": {"Older": {}}}]
    items["task"] = [""] * 4
    items["instruction"][1:] = [None] * 3
    items["target_text"], items["mask"], items["target"] = [None] * 4, [None] * 4, [None] * 4
    items["sources"] = [[], [], [*made.pictures][:1], [*made.pictures][:2]]
    made.edits["values"][0] = None
    made.edits["status"][0] = "P"
    made.edits["values"][2] = [7.0] * len(made.edits["item"])
    made.edits["kind"] = [None] * len(DIMENSIONS)
    made.edits["picture"][0] = None
    detail = made.details["detail-0"]
    detail["items"]["0"] = {"files": {"sources": [], "mask": None, "target": None}, "hint": None,
                            "extra": {"level": None, "many": [1, 2]}}  # fmt: skip
    detail["items"].pop("1")
    for call in detail["calls"]:
        call |= {"model": "", "judge": None, "reply": None, "cost": 0.0, "prompt_tokens": None}
    for edit in detail["edits"].values():
        edit["file"] = None
        for verdict in edit["verdicts"]:
            verdict |= {"signature": None, "versions": None, "reason": None, "kind": None}
            verdict["evidence"] = {"probabilities": None, "read": None, "none": None, "no": False}
    return made


@pytest.mark.parametrize("name", ["page.html", "page"])
@pytest.mark.parametrize("view", ["", "#view=edits", OPENED, f"{OPENED}&show=difference"])
def test_what_has_no_value_is_said_in_words(
    browser: Browser, tmp_path: Path, odd: Example, name: str, view: str
) -> None:
    address = write_page(odd, tmp_path / name).as_uri()
    with open_page(browser, address + view) as page:
        page.wait_for_selector("html[data-ready]", state="attached")
        if "edit=" in view:
            page.keyboard.press("v")
            page.locator(".told").first.wait_for(state="attached")
        facts = page.locator("#runs .run dt").all_text_contents()
        assert {"generalist.a", "generalist.b", "clip.vit_b_32"} <= set(facts)
        assert page.locator(".of-papers .source").text_content() == "Published: table 3; no judge"


def test_without_scripts_too(browser: Browser, tmp_path: Path, odd: Example) -> None:
    address = write_page(odd, tmp_path / "page.html").as_uri()
    with open_page(browser, address, java_script_enabled=False) as page:
        assert page.locator("noscript table").count() == 1
