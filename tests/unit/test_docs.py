"""The pages for users and contributors agree with the code, and their Python runs."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from pydantic import BaseModel

import editjudge
from editjudge.base import config
from editjudge.base.providers import load_providers
from editjudge.benchmarks.gie import dataset as gie
from editjudge.benchmarks.kris import dataset as kris
from editjudge.benchmarks.omni_iie import dataset as omni_iie
from editjudge.benchmarks.records import ReleasedRecord
from editjudge.benchmarks.registry import load_benchmark, load_benchmarks
from editjudge.cli import plugin_commands, root

from ..doc_samples import read_samples, write_samples
from ..e2e.conftest import run_in_process

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "docs" / "howto" / "python.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "design").glob("*.md")),
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MOST_WORDS = 35_000
"""Of the pages by hand, without samples and reference."""


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return [code for name, code in FENCED.findall(page) if name == language]


def anchor(heading: str) -> str:
    """A heading's anchor, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub("`[^`\n]*`", "``", FENCED.sub("", page.read_text(encoding="utf-8")))
    for target in LINK.findall(text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, fragment = target.partition("#")
        file = page.parent / name if name else page
        assert file.is_file(), f"{page.name} links to {target}"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), f"{page.name} links to {target}"


def test_pages_that_the_code_names_are_there() -> None:
    folders = (ROOT / name for name in ("client", "services", "k8s", "tests", "perf"))
    kinds = {".py", ".toml", ".yaml", ".tpl", ".txt"}
    named = {
        page: file
        for folder in folders
        for file in folder.rglob("*")
        if file.suffix in kinds
        for page in re.findall(r"(?<![\w/])docs/[a-z_/]+\.md", file.read_text(encoding="utf-8"))
    }
    assert {page: file for page, file in named.items() if not (ROOT / page).is_file()} == {}


@pytest.mark.parametrize(
    "model",
    [
        config.Settings,
        config.Endpoint,
        config.GatewayEndpoint,
        config.JudgeEndpoint,
        config.StackSettings,
        config.Secret,
    ],
)
def test_every_setting_is_documented(model: type[BaseModel]) -> None:
    page = read("docs", "howto", "configuration.md") + read("docs", "reference", "settings.md")
    form = "{{ {} = " if model is config.Secret else "| `{}` |"
    assert [name for name in model.model_fields if form.format(name) not in page] == []


def test_the_table_of_providers_is_the_data() -> None:
    page = read("docs", "howto", "hosted.md")
    for name, row in load_providers().items():
        cells = (row.title, row.probabilities, row.choices, row.refuses, row.prices, row.lacks)
        assert f"| `{name}` | {' | '.join((*cells, row.limits))} |" in page


def test_arguments_for_the_judge_service_are_options_of_it() -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    rows = "\n".join([*pages, str(config.StackSettings.__doc__)]).splitlines()
    about = " ".join(row for row in rows if "gateway_args" in row)
    told = re.findall("(--[a-z-]+)=", about)
    assert len(told) >= 4
    assert {*told} <= {name for option in plugin_commands()["serve"].params for name in option.opts}


@pytest.mark.parametrize("name", sorted(load_benchmarks().keys() - {"core"}))
def test_every_benchmark_has_its_page(name: str) -> None:
    page = ROOT / "docs" / "howto" / "benchmarks" / f"{name}.md"
    assert page.is_file(), f"write {page}"
    assert f"| `{name}` |" in read("docs", "howto", "benchmarks.md"), "it needs a row there"


@pytest.mark.parametrize("record", [gie.Record, kris.Record, omni_iie.Record])
def test_every_released_field_is_in_its_page_with_ours(record: type[ReleasedRecord]) -> None:
    page = read(f"docs/howto/benchmarks/{record.__module__.split('.')[-2]}.md")
    also = {"edit_type": "task"}
    for name, mark in record.item_fields().items():
        rows = [line for line in page.splitlines() if f"| `{name}`" in line]
        ours = f"`{also.get(mark.field, mark.field)}`"
        assert len(rows) == 1, name
        assert ours in rows[0].split("|")[2], f"{name} is {ours}"


def test_every_generic_dimension_is_described() -> None:
    """By its id, or by that of its family: `core.clip.vit_b_32.…`; metrics of pixels by a row."""
    page = read("docs", "explanation", "dimensions.md")
    ids = [one.id for one in load_benchmark("core").dimensions]
    families = {re.sub(r"\.(source|target)\.\w+$", ".…", name) for name in ids}
    missing = [
        family
        for family in sorted(families)
        if f"`{family}`" not in page and f"| `{family[len('core.') : -len('.…')]}` |" not in page
    ]
    assert not missing, f"say in docs/explanation/dimensions.md what they are: {', '.join(missing)}"


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(d for extra in extras.values() for d in extra)]
    names = {re.split(r"[\[<>=;! ]", one)[0] for one in wanted} - {project["name"]}
    page = read("design", "dependencies.md")
    assert [name for name in sorted(names) if f"| `{name}`" not in page] == []
    assert [extra for extra in extras if f"`{extra}`" not in page] == []


def test_the_python_page_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(read_samples(PYTHON), "docs/howto/python.md", "exec"), names)  # noqa: S102 - our own page
    printed = capsys.readouterr().out
    assert "100.0\nNone\nneeds a target text" in printed
    assert "'lab.brightness.inside': 0.3398" in printed
    assert "'core.psnr.source.whole.coverage': 1.0}" in printed
    row = {"source": {"bytes": Path("data/board.png").read_bytes()}, "instruction": "paint it"}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "train.parquet")
    names["unpack"](tmp_path / "train.parquet", tmp_path / "unpacked")  # type: ignore[operator]
    assert "1 item can be used" in run_in_process("validate", "core", "--data", "unpacked/items.jsonl").out


def test_every_public_name_has_an_example_that_runs() -> None:
    """The page of Python runs above, that of benchmarks below."""
    samples = read_samples(PYTHON) + read_samples(ROOT / "docs" / "howto" / "own.md")
    used = {
        name
        for node in ast.walk(ast.parse(samples))
        for name in (
            [node.attr]
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "editjudge"
            else [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom) and node.module == "editjudge"
            else []
        )
    }
    shown_by_methods = {"Results": "results", "RunResult": "result", "Judgement": "judged"}
    stored = {n.id for n in ast.walk(ast.parse(samples)) if isinstance(n, ast.Name)}
    used |= {name for name, variable in shown_by_methods.items() if variable in stored}
    assert sorted({*dir(editjudge)} - used) == []
    page = PYTHON.read_text(encoding="utf-8")
    assert [name for name in dir(editjudge) if f"`{name}`" not in page] == []


def test_the_benchmark_of_the_page_is_one() -> None:
    names: dict[str, object] = {}
    page = read_samples(ROOT / "docs" / "howto" / "own.md")
    exec(compile(page, "docs/howto/own.md", "exec"), names)  # noqa: S102 - our own page
    benchmark = names["BENCHMARK"]
    assert isinstance(benchmark, editjudge.Benchmark)
    columns = [column.id for column in benchmark.rules().columns]
    assert columns == ["retouching.skin", "retouching.hair"]


def test_samples_are_written_for_the_type_checkers(tmp_path: Path) -> None:
    names = {file.name for file in write_samples(tmp_path)}
    assert {"readme_samples.py", "docs_howto_python_samples.py", "docs_howto_own_samples.py"} <= names


def test_every_verb_is_in_the_readme() -> None:
    page, verbs = read("README.md"), (*root.commands, *plugin_commands())
    assert [verb for verb in verbs if f"editjudge {verb}" not in page] == []


def test_the_pages_are_short() -> None:
    """Words of all pages but the reference, without what stands in fences."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"]
    words = {
        page.relative_to(ROOT).as_posix(): sum(bool(re.search(r"\w", word)) for word in text.split())
        for page in pages
        for text in [re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)]
    }
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda each: -each[1])[:5]


def test_the_readme_is_short() -> None:
    """Words of the whole page, samples included."""
    assert sum(bool(re.search(r"\w", word)) for word in read("README.md").split()) <= 900
