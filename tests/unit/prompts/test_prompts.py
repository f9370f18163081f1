from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from editjudge.answers.questions import Questions
from editjudge.base import prompt_releases as module
from editjudge.base.errors import ConfigError
from editjudge.base.images import load_image
from editjudge.base.prompt_releases import PromptRelease, import_official_prompts, prompt_releases
from editjudge.panel.prompt import Picture, PictureCache, Text
from editjudge.prompts import Template, get_template, load_templates

PICTURE = PictureCache(1024 * 1024).prepare(load_image(np.zeros((8, 8, 3), np.uint8)))
PICTURES = ("sources", "edited", "target", "frames")
FIELDS = {*PICTURES, "instruction", "hint", "target_text"}
MORE = {"earlier", "before", "description", "kind", "question", "answer", "options", "said"}


@pytest.mark.parametrize("name", load_templates())
def test_every_template_can_be_asked(name: str) -> None:
    one = get_template(name)
    assert one.name == name
    assert set(one.fields) <= FIELDS | MORE
    assert bool(one.choices) != (one.contract is not None)
    assert one.asks.endswith(("?", "."))
    assert one.source
    assert one.digest.startswith("sha256:")
    values = {f: f"<{f}>" for f in one.fields}
    pictures = {f: ((f, PICTURE),) for f in PICTURES}
    prompt = one.make_prompt(values | {f: p for f, p in pictures.items() if f in one.fields})
    data = [p.text for p in prompt.parts if isinstance(p, Text) and p.is_data]
    assert data == [f"<{f}>" for f in one.fields if f not in pictures]
    assert isinstance(prompt.parts[-1], Text)
    assert prompt.parts[-1].text.endswith(one.answer)


def test_prompts_about_one_edit_begin_alike() -> None:
    shown = {"sources": (("Source image", PICTURE),), "edited": (("E", PICTURE),)}
    texts = {"instruction": "make it red", "question": "Is it red?"}
    every = [t for t in load_templates().values() if t.name.startswith("core/") and "edited" in t.fields]
    core = [t for t in every if "target" not in t.fields]  # of a pair nothing else is asked
    assert len(core) >= 4
    assert len({t.make_prompt(shown | texts).prefix for t in core}) == 1


def test_a_template_reads_in_order() -> None:
    one = Template("a/b", "?", "s", "sys", "{sources}Told: {instruction}\nDone?", ("Yes", "No"))
    labelled = tuple((f"Source {i}", PICTURE) for i in (1, 2))
    parts = one.make_prompt({"sources": labelled, "instruction": "red {x}"}).parts
    form = "\nDone?\nAnswer with one of these words and nothing else: Yes, No."
    due = ["Source 1:\n", PICTURE, "\nSource 2:\n", PICTURE, "\nTold: ", "red {x}", form]
    assert [p if isinstance(p, Picture) else p.text for p in parts] == due
    with pytest.raises(KeyError):
        one.make_prompt({"sources": labelled})


def test_a_text_that_an_item_lacks_has_a_substitute() -> None:
    one = Template("a/b", "?", "s", "", "Why: {hint}", ("Yes", "No"), absent=(("hint", "unknown"),))
    assert one.make_prompt({"hint": "x"}).parts[1].is_data
    lacking = one.make_prompt({}).parts[0]
    assert lacking.text.startswith("Why: unknown\n")
    assert not lacking.is_data
    other = Template("a/b", "?", "s", "", "Why: {hint}", ("Yes", "No"))
    assert one.digest != other.digest
    with pytest.raises(KeyError):
        other.make_prompt({})


def test_the_digest_covers_words_and_form() -> None:
    base = {"name": "a/b", "asks": "?", "source": "s", "system": "x", "user": "y"}
    made = [
        Template(**base, choices=("Yes", "No")),
        Template(**{**base, "system": "z"}, choices=("Yes", "No")),
        Template(**{**base, "user": "z"}, choices=("Yes", "No")),
        Template(**base, choices=("No", "Yes")),
        Template(**base, contract=Questions()),
        Template(**base, contract=Questions(low=4)),
    ]
    assert len({one.digest for one in made}) == len(made)


@pytest.mark.parametrize("name", ["co_edit/editing", "co_edit/quality"])
def test_an_examination_is_text_before_the_scores(name: str) -> None:
    one = get_template(name)
    assert one.max_tokens == 4096
    assert one.contract.schema is None
    assert "nothing around it" not in one.answer
    assert get_template(f"{name}_plain").max_tokens == 1024
    assert replace(one, max_tokens=2048).digest != one.digest


TEXTS = {"system.txt": "You judge.\n", "question.txt": '  How "good"?  '}


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}
    known = {"bench": PromptRelease("bench", "example.org/bench", digests)}
    monkeypatch.setattr(module, "prompt_releases", lambda: known)


def as_python(folder: Path) -> None:
    (folder / "src").mkdir()
    inside = f"def f():\n    return {TEXTS['question.txt']!r}\n"
    (folder / "src" / "demo.py").write_text(f"SYSTEM = {TEXTS['system.txt']!r}\n{inside}")


def as_json(folder: Path) -> None:
    (folder / "prompts.json").write_text(json.dumps({"a": list(TEXTS.values())}))


def as_files(folder: Path) -> None:
    for name, text in TEXTS.items():
        (folder / name).write_text(text + "\n" if "question" in name else text)


@pytest.mark.parametrize("written", [as_python, as_json, as_files])
@pytest.mark.usefixtures("release")
def test_originals_are_found_by_digest(written: object, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "broken.py").write_text("def (")
    (folder / "broken.json").write_text("{")
    written(folder)  # type: ignore[operator]
    bench = module.prompt_releases()["bench"]
    assert not bench.is_imported
    found = import_official_prompts("bench", folder)
    assert set(found) == set(TEXTS)
    assert bench.is_imported
    for name, text in TEXTS.items():
        assert (bench.folder / name).read_bytes() == text.encode()
    (bench.folder / "system.txt").write_text("You judge!\n")
    assert not bench.is_imported


@pytest.mark.usefixtures("release")
def test_one_missing_text_keeps_all_out(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text(TEXTS["system.txt"])
    with pytest.raises(ConfigError, match=r"question\.txt.*example\.org"):
        import_official_prompts("bench", tmp_path)
    assert not module.prompt_releases()["bench"].folder.exists()


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give qinsight"):
        import_official_prompts("nothing", tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        import_official_prompts("qinsight", tmp_path / "absent")
    with pytest.raises(ConfigError, match="bytedance"):
        import_official_prompts("qinsight", tmp_path)


HOSTILE = {
    "deep.py": b"x = " + b"-" * 200_000 + b"1",
    "many.py": b"if a:\n pass\n" + b"elif a:\n pass\n" * 30_000,
    "brackets.py": b"(" * 200_000,
    "nothing.py": b"a\0b",
    "half.py": b'x = f"{y}\\ud800"',
    "deep.json": b"[" * 200_000,
    "digits.json": b"9" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.usefixtures("release")
def test_a_hostile_file_is_passed_over(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name])
    as_files(tmp_path)
    assert set(import_official_prompts("bench", tmp_path)) == set(TEXTS)


@pytest.mark.usefixtures("release")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_files(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError, match=r"question\.txt cannot be read: Permission denied"):
        import_official_prompts("bench", tmp_path)


def test_the_declared_digests_are_digests() -> None:
    for one in prompt_releases().values():
        assert one.texts
        for digest in one.texts.values():
            assert len(bytes.fromhex(digest)) == 32
