"""Writes the answer of a gate for people, for continuous integration and for a pull request."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as Xml

from ..app.gate import Answer, DimensionGate, Gate
from ..base.errors import ConfigError
from ..base.output_files import write_file
from ..base.strict import to_json
from .numbers import describe_noise, direction_arrow
from .page import PageOptions
from .site import write_report
from .table import Head, Row, Table

_MAX_LISTED = 3
_XML_ELEMENTS = {"fail": "failure", "cannot tell": "error"}
_HEADS = ("dimension", "base", "candidate", "gain [limits]", "margin", "sources", "answer")


def build_gate_table(gate: Gate) -> Table:
    """Build the table of the answers."""
    heads = (Head(name, fold=not n, right=0 < n < len(_HEADS) - 1) for n, name in enumerate(_HEADS))
    return Table(tuple(heads), [Row(_cells(each)) for each in gate.dimensions])


def _cells(row: DimensionGate) -> tuple[str, ...]:
    scale, sign = (100.0, " %") if row.margin.endswith("%") else (1.0, "")
    gain, low, high = (f"{scale * each:+.3g}" for each in (row.gain, row.low, row.high))
    title = f"{row.dimension} {direction_arrow(row.higher_is_better)}"
    means = f"{row.base:.4g}", f"{row.candidate:.4g}"
    limits = f"{gain} [{low}, {high}]{sign}"
    return (title, *means, limits, row.margin, f"{row.sources:,}", row.answer)


def describe_gate(gate: Gate) -> Iterator[str]:
    """Describe what the table does not show, a line each."""
    yield f"{gate.candidate} against {gate.base}; a gain below 0 is a loss, also where lower is better"
    if gate.why:
        yield f"cannot tell: {gate.why}"
    for each in gate.dimensions:
        if each.note:
            yield f"{each.dimension}: {each.note}"
        if each.elsewhere:
            yield f"{each.dimension}: {each.elsewhere:+.3g} with edits that only one has"
        yield from describe_noise(each.dimension, (gate.base, gate.candidate), each.noise)
        if each.answer != "pass" and each.worst:
            yield f"{each.dimension}: largest losses: {_list_worst(each)}"


def _list_worst(row: DimensionGate) -> str:
    return ", ".join(f"{e.item} ({e.first:.4g} → {e.second:.4g})" for e in row.worst[:_MAX_LISTED])


def write_gate(gate: Gate, outputs: Mapping[Path, Collection[str]], out: Path) -> None:
    """Write gate.json, junit.xml, summary.md and worst.html, the page of the worst pairs.

    The page begins with the largest loss in a dimension that fails.

    Args:
        outputs: The runs, and the outputs that the page shows of each.

    Raises:
        ConfigError: the folder has other files, or see `write_report`.
        OSError: the folder cannot be written.
    """
    result = out / "gate.json"
    if out.exists() and any(out.iterdir()) and not result.is_file():
        raise ConfigError(f"{out} holds other files", "give a new folder")
    write_file(result, to_json(gate).encode())
    write_file(out / "junit.xml", _to_junit(gate))
    lines = [*describe_gate(gate)]
    cells = [_HEADS, ("---",) * len(_HEADS), *map(_cells, gate.dimensions)]
    table = [f"| {' | '.join(row)} |" for row in cells]
    bullets = [f"- {line}" for line in lines]
    text = "\n".join([f"### editjudge gate: {gate.answer}", "", *table, "", *bullets, ""])
    write_file(out / "summary.md", text.encode())
    rows = sorted(gate.dimensions, key=lambda each: get_args(Answer).index(each.answer))
    worst = [*dict.fromkeys(pair.item for each in rows for pair in each.worst)]
    heading = f"{gate.answer}: {gate.candidate} against {gate.base}"
    answers = [f"{name}: {answer}; gain {gain}, margin {margin}" for name, _, _, gain, margin, _, answer in cells[2:]]
    options = PageOptions(f"editjudge gate: {heading}", introduction=[("", line) for line in (*answers, *lines)])
    write_report([*outputs], out / "worst.html", options=options, items=worst, outputs=[*outputs.values()])


def _to_junit(gate: Gate) -> bytes:
    counts = dict.fromkeys(_XML_ELEMENTS.values(), 0)
    suite = Xml.Element("testsuite", name="editjudge gate", tests=str(len(gate.dimensions)))
    for each in gate.dimensions:
        case = Xml.SubElement(suite, "testcase", classname="editjudge.gate", name=each.dimension)
        answer = "cannot tell" if gate.why and each.answer == "pass" else each.answer
        if element := _XML_ELEMENTS.get(answer):
            counts[element] += 1
            _, _, _, gain, margin, *_ = _cells(each)
            below = Xml.SubElement(case, element, message=f"gain {gain}, margin {margin}")
            below.text = "\n".join(filter(None, (gate.why, each.note, _list_worst(each))))
    for element, count in counts.items():
        suite.set(f"{element}s", str(count))
    text: bytes = Xml.tostring(suite, "utf-8", xml_declaration=True)
    return text
