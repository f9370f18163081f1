"""What a page of many edits takes: built, opened and scrolled in the real Chromium.

    python perf/report.py [edits]

A run of five models and nine dimensions, three of them judged with a prompt and a reply, is written
by the store's own functions in a process of its own. Each step is measured in a process of its own:
reading and writing the page without thumbnails and then with them, and each time opening it, going
through the list to its end, opening an edit. Seconds are of the clock, `processor` is what we took
of the processor; memory is the most that was resident, of Chromium the JavaScript heap.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

MODELS = ("a", "b", "c", "d", "e")
SIZE = (256, 256)
POOL = 40
"""Different pictures; each is read and made small for each edit all the same."""
CHROMIUM = "/usr/bin/chromium"
STEPS = 60


def make(folder: Path, edits: int) -> None:
    """The run."""
    from tests.report_runs import make_run

    make_run(folder, edits // len(MODELS), MODELS, shared=POOL, size=SIZE)


def build(folder: Path, *, pictures: bool) -> dict[str, float]:
    """The page as a folder."""
    from editjudge.report.site import write_report

    began, processor = time.perf_counter(), time.process_time()
    write_report([folder / "run"], folder / "page", pictures=pictures)
    files = [path for path in (folder / "page").rglob("*") if path.is_file()]
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "page MB": sum(path.stat().st_size for path in files) / 1e6,
        "files": len(files),
    }


def look(folder: Path) -> dict[str, float]:
    """The page in Chromium."""
    from playwright.sync_api import sync_playwright

    figures: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto((folder / "page" / "index.html").as_uri())
        page.locator("#boards tbody tr").first.wait_for()
        figures["opened"] = time.perf_counter() - began
        began = time.perf_counter()
        page.locator("#to-edits").click()
        page.locator("#rows > *").first.wait_for()
        figures["list"] = time.perf_counter() - began
        figures |= page.evaluate(_SCROLL_SCRIPT, STEPS)
        began = time.perf_counter()
        page.keyboard.press("j")
        page.locator("#verdicts tr, #verdicts li, #verdicts details").first.wait_for()
        figures["edit"] = time.perf_counter() - began
        figures["heap MB"] = page.evaluate("performance.memory.usedJSHeapSize / 1e6")
        browser.close()
    return figures


_SCROLL_SCRIPT = """async steps => {
  const list = document.getElementById("list");
  const took = [];
  let most = 0;
  for (let step = 1; step <= steps; step++) {
    const began = performance.now();
    list.scrollTop = (list.scrollHeight - list.clientHeight) * step / steps;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    took.push(performance.now() - began);
    most = Math.max(most, document.getElementById("rows").childElementCount);
  }
  took.sort((a, b) => a - b);
  const [median, longest] = [took[steps >> 1] / 1000, took[steps - 1] / 1000];
  return {"median of a step": median, "longest step": longest, "rows held": most};
}"""


def in_process(*arguments: str) -> dict[str, float]:
    """What a process of this script printed."""
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout or "{}")


def main() -> None:
    """Make, measure, print."""
    step, folder = (sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else ("", Path())
    if step == "--make":
        make(folder, int(sys.argv[3]))
    elif step in {"--bare", "--whole"}:
        print(json.dumps(build(folder, pictures=step == "--whole")))
    elif step == "--look":
        print(json.dumps(look(folder)))
    else:
        edits = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
        with tempfile.TemporaryDirectory() as output_folder:
            in_process("--make", output_folder, str(edits))
            print(f"{edits:,} edits, {len(MODELS)} models, 9 dimensions, {SIZE[0]}x{SIZE[1]}")
            for name in ("--bare", "--look", "--whole", "--look"):
                figures = in_process(name, output_folder)
                print(f"{name[2:]:6}", ", ".join(f"{of} {v:.3g}" for of, v in figures.items()))


if __name__ == "__main__":
    main()
