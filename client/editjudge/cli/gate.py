"""`editjudge gate`: decide whether a candidate may replace its base."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from ..app.gate import GateRules, PlanRow, check_gate, plan_gate
from ..app.view import RunView
from ..base.errors import ConfigError
from ..base.output_files import wrap_disk_errors
from ..base.terminal import print_text
from ..report.gate import build_gate_table, describe_gate, write_gate
from ..report.table import Head, Row, Table
from .options import open_run, parse_pairs, parse_part
from .output import print_json, print_tables

_EXITS = {"pass": (0, "green"), "fail": (4, "red"), "cannot tell": (5, "yellow")}
_FILE = Path("gate.toml")
_SOURCES = (50, 100, 200, 500, 1000)
_PLAN_HEADS = "margin", "sources", "passes if equal", "finds a loss of", "calls", "cost"


def gate_command(
    base: str,
    candidate: str,
    margin: tuple[str, ...],
    rules: Path | None,
    look: str,
    out: Path | None,
    *,
    unchecked: bool,
    plan: bool,
    json: bool,
) -> int:
    """Decide whether a candidate may replace its base; return the exit code."""
    gate_rules = _read_rules(margin, rules)
    looks = parse_part("look", look, first=1)
    with ExitStack() as stack:
        views: dict[Path, RunView] = {}
        old, new = (_open_side(text, views, stack) for text in (base, candidate))
        if plan:
            rows = plan_gate(old, new, gate_rules, _SOURCES)
            print_json(rows) if json else print_tables([_plan_table(rows)])
            return 0
        gate = check_gate(old, new, gate_rules, look=looks, allow_unchecked=unchecked)
        outputs: dict[Path, set[str]] = {}
        for view, model in (old, new):
            outputs.setdefault(view.folder, set()).update(view.header.find_outputs(model))
    if out is not None:
        with wrap_disk_errors(out):
            write_gate(gate, outputs, out)
    code, colour = _EXITS[gate.answer]
    if json:
        print_json(gate)
        return code
    print_tables([build_gate_table(gate)])
    print_text(*describe_gate(gate))
    print_text(gate.answer.upper(), fg=colour, bold=True)
    return code


def _read_rules(margins: tuple[str, ...], file: Path | None) -> GateRules:
    if file is None and _FILE.is_file():
        file = _FILE
    if file is None and not margins:
        raise ConfigError("no margin is given", f"give --margin, or write {_FILE}")
    texts = [text if "=" in text else f"*={text}" for text in margins]
    return GateRules.read(file, parse_pairs("--margin", texts, "ID=MARGIN"))


def _open_side(text: str, views: dict[Path, RunView], stack: ExitStack) -> tuple[RunView, str]:
    """Open the run of MODEL=RUN, or of RUN if it has one model.

    Raises:
        ConfigError: there is no such run, or it has several models.
    """
    model, _, path = text.partition("=")
    if RunView.exists_at(Path(text)) or not path:
        model, path = "", text
    folder = Path(path)
    if folder not in views:
        views[folder] = stack.enter_context(open_run(folder))
    models = [*views[folder].header.models]
    if not model and len(models) > 1:
        why = f"{folder} has several models: {', '.join(models)}"
        raise ConfigError(why, f"write MODEL={folder}")
    return views[folder], model or models[0]


def _plan_table(rows: Iterable[PlanRow]) -> Table:
    heads = (Head("dimension", fold=True), *(Head(name, right=True) for name in _PLAN_HEADS))
    cells = (
        (of.dimension, of.margin, of.sources, f"{of.power:.0%}", f"{of.detectable:.3g}", of.calls, cost)
        for of in rows
        for cost in ["-" if of.cost is None else f"{of.cost:,.2f}"]
    )
    return Table(heads, [*map(Row, cells)])
