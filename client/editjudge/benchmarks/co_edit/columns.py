"""Tables 1 and 7 of the paper, the 11 metrics, and table 13 for in-context edits.

Co-EditEval is computed for each edit, and a column is the mean over edits. Groups stand as they
are before the cap, as in table 1 (AnyEdit's identity of 7.27 beside a completeness of 2.25).
"""

from collections.abc import Iterable

from ..column import Column, Mean, Where, of_tasks
from .dimensions import COMPLETENESS, GROUPS, IDENTITY, QUALITY, dimensions
from .switches import CoEditSwitches
from .taxonomy import EDIT_TYPES, IN_CONTEXT

_OVERALL = "overall"
_IN_THE_BENCHMARK = of_tasks(*EDIT_TYPES)
"""The items of the 16 types, which table 1 counts."""
# In the order of table 13; non-edited preservation does not apply there.
_IN_CONTEXT = (_OVERALL, COMPLETENESS, QUALITY, IDENTITY)


def columns(switches: CoEditSwitches) -> tuple[Column, ...]:
    """Return the columns whose dimensions the switches leave."""
    there = {dimension.id for dimension in dimensions(switches)}
    return tuple(
        column for column in (*_table_1(), *_metrics(), *_table_7(), *_table_13()) if column.dimensions[0] in there
    )


def _table_1() -> Iterable[Column]:
    for name in (*GROUPS, _OVERALL):
        yield _column(name, name, _short(name), _IN_THE_BENCHMARK, "table 1", "Co-EditEval")


def _metrics() -> Iterable[Column]:
    for group in GROUPS.values():
        for name, row in group["metrics"].items():
            short, title = row["short"], group["title"]
            yield _column(name, name, short, _IN_THE_BENCHMARK, "section 3.2", title)


def _table_7() -> Iterable[Column]:
    for name, title in EDIT_TYPES.items():
        column, where = f"{name}.{_OVERALL}", of_tasks(name)
        yield _column(column, _OVERALL, title, where, "table 7", "Overall by Type")


def _table_13() -> Iterable[Column]:
    where = of_tasks(IN_CONTEXT)
    for name in _IN_CONTEXT:
        yield _column(f"{IN_CONTEXT}.{name}", name, _short(name), where, "table 13", "In-Context")


def _column(name: str, of: str, title: str, where: Where, table: str, group: str) -> Column:
    # The overall of some edits rests on the judge alone: without the specialists its mean would be
    # over those, and the others would not show.
    how = Mean(f"co_edit.{of}", where, needs_services=of == _OVERALL)
    return Column(f"co_edit.{name}", title, how, True, f"Co-EditBench, {table}", group)


def _short(name: str) -> str:
    return GROUPS[name]["short"] if name in GROUPS else "O"
