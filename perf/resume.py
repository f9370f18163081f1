"""How long until a run of 100,000 edits goes on, and in how much memory.

A run is begun with all verdicts there but ten; measured is what `editjudge run` does before the
first of these is judged, in a process of its own: reading and checking the data, finding the
outputs, and asking the store what stands.

    python perf/resume.py [edits]

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
BUDGET_SECONDS, BUDGET_MB = 2.0, 300


def make(folder: Path, edits: int) -> None:
    """Items that share five pictures, in folders of a thousand."""
    rng = np.random.default_rng(0)
    for index in range(5):
        pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(folder / f"{index}.png")
    with (folder / "items.jsonl").open("w") as file:
        for index in range(edits):
            name = f"{index // 1000}/{index}"
            line = {"id": name, "instruction": f"make cup {index} red", "source": "0.png"}
            file.write(json.dumps(line) + "\n")
            output = folder / "outputs" / f"{name}.png"
            if index % 1000 == 0:
                output.parent.mkdir(parents=True)
            output.symlink_to(folder / f"{index % 5}.png")


def begin(folder: Path) -> None:
    """Put all verdicts but the last into the run."""
    from editjudge.base.config import Settings
    from editjudge.base.verdict import Scored
    from editjudge.engine.runplan import observe
    from editjudge.storage.store import RunStore

    resolved = asked(folder)
    observed = observe(resolved.order)
    signatures = resolved.order.signatures({})
    with RunStore.open(folder / "run", resolved.header(Settings())) as store:
        with store.database.transaction():
            for item in observed.ids[:-LEFT]:
                edit = store.edit_id(item, "a", "sha256:" + "0" * 64)
                store.put_verdicts(edit, {DIMENSION: Scored(value=1.0)}, signatures)
        store.keep_outputs([], {"a": time.time() + 1})


def asked(folder: Path):
    """What the run is asked for."""
    from editjudge.app.spec import Resolved, RunSpec

    return Resolved(
        RunSpec(
            benchmark="core",
            data=folder / "items.jsonl",
            outputs={"a": folder / "outputs"},
            dimensions=(DIMENSION,),
        )
    )


def go_on(folder: Path) -> dict[str, float]:
    """Everything before the first edit is judged, and the summary after the last."""
    start = time.process_time()
    from editjudge.app.shift import refuse_shifted
    from editjudge.app.summary import cells
    from editjudge.base.config import Settings
    from editjudge.engine.runplan import observe
    from editjudge.engine.scheduler import jobs
    from editjudge.engine.session import planned
    from editjudge.storage.store import RunStore

    resolved = asked(folder)
    order = resolved.order
    imported = time.process_time()
    observed = observe(order)
    looked = time.process_time()
    refuse_shifted(observed)
    compared = time.process_time()
    with RunStore.open(folder / "run", resolved.header(Settings())) as store:
        plan = planned(observed, store, {})
        next(jobs(plan))
        first = time.process_time()
        assert plan.edits == LEFT
        cells(store, plan)
    end = time.process_time()
    return {
        "import": imported - start,
        "data": looked - imported,
        "sizes": compared - looked,
        "plan": first - compared,
        "until the first edit": first - start,
        "columns": end - first,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Make, begin, go on five times; the median counts."""
    if len(sys.argv) == 3 and sys.argv[1] == "--go-on":
        print(json.dumps(go_on(Path(sys.argv[2]))))
        return
    edits = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, edits)
        begin(folder)
        stored = sum(file.stat().st_size for file in (folder / "run").glob("run.sqlite*"))
        again = [sys.executable, __file__, "--go-on", name]
        runs = [
            json.loads(subprocess.run(again, capture_output=True, check=True).stdout)
            for _ in range(5)
        ]
    medians = {key: sorted(one[key] for one in runs)[2] for key in runs[0]}
    print(f"{edits:,} edits, median of 5")
    for key, value in medians.items():
        print(f"  {key:<22} {value:6.2f}{'' if key == 'MB' else ' s'}")
    print(f"  {'bytes per verdict':<22} {stored / edits:6.0f}, without evidence and replies")
    good = medians["until the first edit"] <= BUDGET_SECONDS and medians["MB"] <= BUDGET_MB
    print(f"budget {BUDGET_SECONDS} s, {BUDGET_MB} MB: {'kept' if good else 'NOT KEPT'}")


if __name__ == "__main__":
    main()
