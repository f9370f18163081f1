"""`editjudge run`: judge models on a data set, and go on where it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..base.errors import InputError
from . import importing
from .options import SPEC, check_judges, settings_of, shard_of, spec_of, takes


@click.command("run")
@click.argument("benchmark")
@takes(*SPEC, "shard", "as_named", out="Folder of the run; kept.")
@takes("retry", "dry_run", "fail_on_error")
@takes("generalist", "judge_model", "endpoint", "gateway", "max_cost", "ledger", "json")
def command(benchmark: str, out: Path, *, dry_run: bool, json: bool, **asked: Any) -> int:
    """Judge what models made of a data set; the same command resumes the run.

    BENCHMARK is core for data of your own, or one that editjudge list benchmarks shows.

    Exit code 3 when verdicts failed, nothing could be judged, or the run ended early
    (--fail-on-error, --max-cost).
    """
    if not asked["outputs"]:
        raise InputError("--outputs", "no model is given", "give --outputs MODEL=DIR")
    with importing():
        from ..app.run import spec_of as stored_spec
        from ..panel.services import own_services
        from . import running

    settings = settings_of(asked)
    spec = spec_of(benchmark, asked, stored_spec(out), own_services(settings))
    check_judges(asked["judge"], settings)
    how = {"shard": shard_of(asked["shard"]), "as_named": asked["as_named"]}
    if not dry_run:
        how |= {"retry": asked["retry"], "fail_on_error": asked["fail_on_error"]}
        return running.judged(spec, out, settings, as_json=json, **how)
    if asked["retry"]:
        what = f"does not foresee --retry {asked['retry']}"
        raise InputError("--dry-run", what, "leave one of the two out")
    return running.dry_run(spec, out, settings, as_json=json, **how)
