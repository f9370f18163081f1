"""How long until a run of 100,000 edits goes on, and in how much memory.

A run is begun with all verdicts there but ten; measured is what `editjudge run` does before the
first of these is judged, in a process of its own: reading and checking the data, finding the
outputs, and asking the store what stands.

    python perf/resume.py [edits] [--own-sources]

Items share five sources, or each has its own. Of every output and every source it is asked whether
it is still the file that was judged.

Seconds are of the processor, so that what else the machine does is left out.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image as Pil

LEFT = 10
DIMENSION = "core.psnr.source.whole"
SETTLE_SECONDS = 2.5
"""Seconds after which a file's times tell that it did not change."""
BUDGET_SECONDS, BUDGET_MB = 2.0, 300


def make(folder: Path, edits: int, *, own_sources: bool) -> None:
    """Items whose outputs are five pictures, in folders of a thousand."""
    rng = np.random.default_rng(0)
    for index in range(5):
        pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(folder / f"{index}.png")
    with (folder / "items.jsonl").open("w") as file:
        for index in range(edits):
            name = f"{index // 1000}/{index}"
            source = f"sources/{name}.png" if own_sources else f"{index % 5}.png"
            line = {"id": name, "instruction": f"make cup {index} red", "source": source}
            file.write(json.dumps(line) + "\n")
            output = folder / "outputs" / f"{name}.png"
            for path in (output, folder / source):
                if index % 1000 == 0:
                    path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    path.symlink_to(folder / f"{index % 5}.png")
    time.sleep(SETTLE_SECONDS)  # from then on their times tell that they are the same


def begin(folder: Path) -> None:
    """Put all verdicts but the last into the run."""
    from editjudge.base.config import Settings
    from editjudge.base.verdict import Score
    from editjudge.engine.content_keys import JudgedEdit
    from editjudge.engine.run_plan import inspect_items
    from editjudge.storage.store import RunStore

    resolution = make_spec(folder)
    plan = inspect_items(resolution)
    contents = plan.contents
    signatures = resolution.signatures({})
    verdicts = {DIMENSION: Score(value=1.0)}
    header = resolution.header(Settings())
    with RunStore.open(folder / "run", header) as store, store.database.transaction():
        for ref in resolution.dataset.items(range(len(plan.ids) - LEFT)):
            state = contents.files.get_state(str(folder / "outputs" / f"{ref.id}.png"))
            edit = JudgedEdit(ref.id, "a", state, None, contents.read(ref))
            store.save_edit_now(edit, verdicts, signatures)
        store.save_contents([], contents.updates(), {})


def make_spec(folder: Path):
    """What the run is asked for."""
    from editjudge.app.spec import ResolvedSpec, RunSpec

    return ResolvedSpec(
        RunSpec(
            benchmark="core", data=folder / "items.jsonl", outputs={"a": folder / "outputs"}, dimensions=(DIMENSION,)
        )
    )


def go_on(folder: Path) -> dict[str, float]:
    """Everything before the first edit is judged, and the summary after the last."""
    start = time.process_time()
    from editjudge.app.name_shift import refuse_shifted_outputs
    from editjudge.app.run import read_file_cache
    from editjudge.app.summary import mean_cells
    from editjudge.base.config import Settings
    from editjudge.engine.run_plan import compare_with_run, inspect_items
    from editjudge.engine.scheduler import make_jobs
    from editjudge.storage.store import RunStore

    resolution = make_spec(folder)
    order = resolution
    import_end = time.process_time()
    plan = inspect_items(order, read_file_cache(folder / "run"))
    look_end = time.process_time()
    with RunStore.open(folder / "run", resolution.header(Settings())) as store:
        compare_with_run(plan, store, {})
        compare_end = time.process_time()
        refuse_shifted_outputs(plan)
        sample_end = time.process_time()
        next(make_jobs(plan, *next(plan.list_unfinished_items())))
        first = time.process_time()
        assert plan.edit_count == LEFT
        mean_cells(store, plan)
    end = time.process_time()
    return {
        "import": import_end - start,
        "data": look_end - import_end,
        "neighbours": sample_end - compare_end,
        "plan": first - look_end - (sample_end - compare_end),
        "until the first edit": first - start,
        "columns": end - first,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Make, begin, go on five times; the median counts."""
    if len(sys.argv) == 3 and sys.argv[1] == "--go-on":
        print(json.dumps(go_on(Path(sys.argv[2]))))
        return
    own_sources = "--own-sources" in sys.argv
    numbers = [one for one in sys.argv[1:] if one.isdecimal()]
    edits = int(numbers[0]) if numbers else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, edits, own_sources=own_sources)
        begin(folder)
        stored_bytes = sum(file.stat().st_size for file in (folder / "run").glob("run.sqlite*"))
        again = [sys.executable, __file__, "--go-on", name]
        runs = [json.loads(subprocess.run(again, capture_output=True, check=True).stdout) for _ in range(5)]
    medians = {key: sorted(one[key] for one in runs)[2] for key in runs[0]}
    print(f"{edits:,} edits, {'a source each' if own_sources else 'shared sources'}, median of 5")
    for key, value in medians.items():
        print(f"  {key:<22} {value:6.2f}{'' if key == 'MB' else ' s'}")
    print(f"  {'bytes per verdict':<22} {stored_bytes / edits:6.0f}, without evidence and replies")
    good = medians["until the first edit"] <= BUDGET_SECONDS and medians["MB"] <= BUDGET_MB
    print(f"budget {BUDGET_SECONDS} s, {BUDGET_MB} MB: {'kept' if good else 'NOT KEPT'}")


if __name__ == "__main__":
    main()
