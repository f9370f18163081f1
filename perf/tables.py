"""What `editjudge summary`, `compare`, `export` and `report` of a million verdicts take: seconds and memory.

The runs are written by the store's own functions, beforehand and in a process of its own: one of
four models and five dimensions of pixels, and one of five models, two judges in two rounds each and
two judged dimensions, with their means. Each command is measured in a process of its own, which
does all that it does but print; the page is made without pictures.

    python perf/tables.py [verdicts]

Seconds are of the processor, so that what else the machine does is left out. Memory is the most
that was resident, and in brackets what of it comes on top of the same on a run of a hundredth.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
from PIL import Image as Pil

PIXELS = ("psnr", "ssim", "mse", "aligned_psnr", "aligned_mse")
RUNS = {
    "pixels": {"benchmark": "core", "models": 4, "dimensions": tuple(f"core.{name}.source.whole" for name in PIXELS)},
    "two judges, two rounds": {
        "benchmark": "i2i",
        "models": 5,
        "dimensions": ("i2i.se.instruction_following", "i2i.se.physical_plausibility"),
        "judges": ("one", "two"),
        "rounds": 2,
    },
}
ITEMS_A_SOURCE = 4
UNSCORED_SHARE, MISSING_SHARE = 0.02, 0.02
"""Shares of verdicts without a number, and of edits without an output."""
FORMATS = ("csv", "jsonl", "parquet")
COMMANDS = ("summary", "compare", "rank", *FORMATS, "report")


def make_spec(folder: Path, name: str):
    """What a run is asked for."""
    from editjudge.app.spec import ResolvedSpec, RunSpec

    how = dict(RUNS[name])
    models = how.pop("models")
    outputs = {f"m{number}": folder / "outputs" for number in range(models)}
    return ResolvedSpec(RunSpec(data=folder / "items.jsonl", outputs=outputs, **how))


def make(folder: Path, name: str, verdicts: int) -> None:
    """Items of which four share a picture, and a run in which all is judged."""
    from editjudge.base.config import Settings
    from editjudge.base.file_states import ABSENT
    from editjudge.base.signature import versions
    from editjudge.engine.content_keys import ItemContents
    from editjudge.storage.compression import dumps
    from editjudge.storage.edit_rows import Provenance
    from editjudge.storage.schema import EDITS, FILES, encode_text
    from editjudge.storage.store import RunStore

    rng, numbers = np.random.default_rng(0), count(1)
    Pil.fromarray(np.zeros((64, 64, 3), np.uint8)).save(folder / "0.png")
    (folder / "sources").mkdir()
    (folder / "outputs").mkdir()
    (folder / "items.jsonl").write_text("")
    line = {"id": "0", "instruction": "make cup 0 red", "source": "0.png", "task": "local_editing"}
    (folder / "items.jsonl").write_text(json.dumps(line))
    picture, probe = (folder / "0.png").read_bytes(), make_spec(folder, name)
    items = verdicts // (len(probe.dimensions) * len(probe.spec.outputs))
    with (folder / "items.jsonl").open("w") as file:
        for index in range(items):
            record = {"id": f"{index // 1000}/{index}", "instruction": f"make cup {index} red"}
            record["source"] = f"sources/{index // ITEMS_A_SOURCE}.png"
            if index % ITEMS_A_SOURCE == 0:
                (folder / record["source"]).write_bytes(picture + index.to_bytes(4))
            file.write(json.dumps(line | record) + "\n")
    plan = make_spec(folder, name)
    signatures = plan.signatures({})
    ends = {d.id: (d.range[0], min(d.range[1], 1e4)) for d in plan.dimensions_by_id.values()}
    skills = {model: number / 20 for number, model in enumerate(plan.spec.outputs)}
    with RunStore.open(folder / "run", plan.header(Settings())) as store, store.database.transaction():
        contents = ItemContents(plan.dataset)
        provenances = tuple(Provenance(name, signatures[name], versions()) for name in sorted(signatures))
        signing = store._save_provenances(provenances)
        compress = store.database.compressor.compress
        details = [compress([{"evidence": {"seen": number}}] * len(signatures)) for number in range(1000)]

        def rows():
            missing = encode_text(dumps(["absent", "no file"]))
            low, high = np.array([ends[one.dimension] for one in provenances]).T
            for ref in plan.dataset.items():
                content, item = contents.read(ref).key, encode_text(ref.id)
                for model, skill in skills.items():
                    edit = (next(numbers), item, encode_text(model), content)
                    if rng.random() < MISSING_SHARE:
                        yield (*edit, None, missing, ABSENT, 0, b"[]"), None
                        continue
                    # Most values lie near one end, each model's a little elsewhere.
                    values = (low + (high - low) * rng.beta(5 + skill, 1.5, len(low))).tolist()
                    for place in np.flatnonzero(rng.random(len(low)) < UNSCORED_SHARE):
                        values[place] = {"status": "unscored", "kind": "unparsable", "reason": f"reply {ref.index}"}
                    detail = details[ref.index % len(details)]
                    yield (*edit, bytes(32), None, ABSENT, signing, encode_text(dumps(values))), detail

        fill(store.database, EDITS, rows())
        updates = contents.updates()
        fill(store.database, FILES, (((number, *one), None) for number, one in updates.files.items()))
        store.save_contents([], replace(updates, files={}), {})


def fill(database, table, rows) -> None:
    """Insert rows at once, with the checksums of the store; each is its short values and a long one."""
    from editjudge.storage.database import _insertion
    from editjudge.storage.schema import checksum, long_checksum

    def whole():
        for row, long in rows:
            short = (*row, long_checksum((long,))) if table.long else row
            yield (*short, checksum(short), long) if table.long else (*short, checksum(short))

    database._db.executemany(_insertion(table), whole())


def measure(folder: Path, what: str) -> dict[str, float]:
    """One command, without what it prints."""
    from editjudge.app.comparison import compare_models, rank_models
    from editjudge.app.export import export
    from editjudge.app.view import RunView
    from editjudge.base.strict import to_json
    from editjudge.report.site import write_report

    start, began, out = time.process_time(), time.monotonic(), folder / f"out.{what}"
    with RunView(folder / "run") as view:
        if what == "summary":
            out.write_text(to_json(view.results()))
        elif what == "compare":
            out.write_text(to_json(compare_models((view, "m0"), (view, "m1"))))
        elif what == "rank":
            out.write_text(to_json(rank_models(view)))
        elif what == "report":
            write_report([folder / "run"], out, pictures=False)
        else:
            export(view, out, what)
    processor, wall = time.process_time() - start, time.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256()  # to compare what two versions say
    for file in sorted(out.rglob("*.js"), key=lambda f: f.name) if out.is_dir() else [out]:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    return {"seconds": processor, "clock": wall, "MB": most, "digest": digest.hexdigest()[:12]}


def in_process(*arguments: str) -> dict[str, float]:
    """What a process of this script printed."""
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout or "{}")


def main() -> None:
    """Make, measure, print."""
    if sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
        return
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3])))
        return
    verdicts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for name in RUNS:
        print(f"{verdicts:,} verdicts, {name}")
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as part:
            in_process("--make", whole, name, str(verdicts))
            in_process("--make", part, name, str(verdicts // 100))
            for what in COMMANDS:
                least = in_process("--measure", part, what)
                took = in_process("--measure", whole, what)
                more = took["MB"] - least["MB"]
                print(
                    f"  {what:<8} {took['seconds']:6.1f} s {took['MB']:6.0f} MB ({more:+.0f})  {took['digest']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
