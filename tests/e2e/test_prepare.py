"""`editjudge prepare` against scripted services."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from editjudge.prepare.folder import Folder
from editjudge.prepare.items import DraftData

from ..fakes.openai import ScriptedOpenAi, reply
from ..patience import until
from ..small_data import save_picture
from ..unit.prepare.folders import decide, save
from .conftest import CommandResult, await_end, process, run_in_thread

SIZE = (32, 24)
HASTY = {"EDITJUDGE_PATIENCE": "0", "EDITJUDGE_ATTEMPTS": "1", "EDITJUDGE_DEADLINE": "5", "EDITJUDGE_CONCURRENCY": "2"}
TASKS = ["Color Change", "Add Object", "", "Textual Change", "Background Change"]


class Writer(ScriptedOpenAi):
    """Writes what it is asked for.

    Attributes:
        says: What it says about an instruction instead.
        lives: For so many requests.
    """

    def __init__(self, *script: Any, **more: Any) -> None:
        super().__init__(*script, **more)
        self.says: dict[str, Any] = {}
        self.lives: float = math.inf

    @property
    def count(self) -> int:
        """What it was asked to write; how it answers is asked before that, in a word."""
        return sum(body["max_tokens"] > 1 for body in self.requests)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if self.count < self.lives:
            return await super()._chat(request)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def make_reply(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        for instruction, answer in self.says.items():
            if instruction in text:
                return answer() if callable(answer) else reply(json.dumps(answer))
        if '\\"wrong\\"' in text:
            options = {"question": "Which colour has the cup?", "answer": "Red"}
            return reply(json.dumps(options | {"wrong": ["Blue", "Green, or teal"]}))
        if '\\"instruction\\"' in text:
            return reply(json.dumps({"instruction": "Take the cup away."}))
        if '\\"pairs\\"' in text:
            return reply(json.dumps({"pairs": [{"question": "Is it red?", "answer": "Yes"}]}))
        return reply(json.dumps({"scope": "objects", "phrases": ["the cup", "its saucer"]}))

    def asked_about(self, text: str) -> int:
        return sum(text.encode() in body for body in self.bodies)


class Set:
    """Items of one's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "items.jsonl"
        self.out = folder.parent / "out"
        rng = np.random.default_rng(3)
        for index in range(3):
            pixels = rng.integers(0, 256, (*SIZE[::-1], 3), dtype=np.uint8)
            save_picture(folder / "images" / f"{index}.png", pixels)

    def write(self, count: int, **changed: dict[str, Any]) -> None:
        """`changed` has fields by position, as `_2={…}`."""
        lines = []
        for i in range(count):
            line = {"id": f"set/{i}", "instruction": f"edit number {i}.", "task": TASKS[i % 5]}
            line |= {"source": f"images/{i % 3}.png"} | changed.get(f"_{i}", {})
            lines.append({name: value for name, value in line.items() if value is not None})
        self.file.write_text("\n".join(map(json.dumps, lines)) + "\n")

    def arguments(self, verb: str, *more: Any, out: Path | None = None) -> list[Any]:
        return [verb, "--data", self.file, "--out", out or self.out, *more]

    async def prepare(
        self, verb: str, url: str, *more: object, code: int = 0, out: Path | None = None
    ) -> CommandResult:
        """Prepare by the judge at an address, to an exit code; what it says is JSON."""
        done = await run_prepare(*self.arguments(verb, "--generalist", url, "--json", *more, out=out))
        assert done.code == code, done.err
        return done

    def items(self, name: str = "items.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Set:
    for name, value in HASTY.items():
        monkeypatch.setenv(name, value)
    return Set(tmp_path / "data")


async def run_prepare(verb: object, *arguments: object) -> CommandResult:
    """Beside a server in this process."""
    words = () if verb == "review" else ("prepare",)
    return await run_in_thread(*words, verb, *arguments)


def counts(done: CommandResult) -> dict[str, int]:
    return {status: n for status, n in done.json["counts"].items() if n}


async def test_choice_questions_are_written_by_edit_type_and_once(data: Set) -> None:
    mine = {"question": "Mine?", "options": ["a", "b"], "answer": "a"}
    data.write(6, _4={"questions": [mine], "extra": {"keep": 1}})
    server = Writer()
    async with server.serving() as url:
        first = await data.prepare("questions", url)
        assert counts(first) == {"made": 5, "had": 1}
        assert server.count == 5
        told = first.json
        assert told["usage"]["calls"] == len(server.requests) == 5 + 1, "how it answers is asked"
        assert told["services"].keys() == {"generalist.judge"}
        for words in ("another colour", "will be added", "matters most", "Writing in the image"):
            assert server.asked_about(words) == (2 if "colour" in words else 1), words
        again = await data.prepare("questions", url)
    assert len(server.requests) == 5 + 1, "every reply is in the ledger"
    assert counts(again) == counts(first)

    lines = data.items()
    assert [one["id"] for one in lines] == [f"set/{i}" for i in range(6)]
    assert lines[4]["questions"] == [mine]
    assert lines[4]["extra"] == {"keep": 1}
    for line in lines[:4]:
        (question,) = line["questions"]
        assert set(question["options"][:3]) == {"Red", "Blue", "Green, or teal"}
        assert question["options"][3] == "It cannot be told from the image"
        assert question["answer"] == "Red"
        assert (data.out / line["source"]).is_file()
    assert len({tuple(one["questions"][0]["options"]) for one in lines}) > 2, "in several orders"
    assert "Mine?" in data.file.read_text(), "what was given is left as it is"


async def test_candidates_are_items_of_which_a_reviewer_keeps_three(data: Set) -> None:
    data.write(2, _0={"instruction": " ", "extra": {"mine": 1}})
    server = Writer()
    written = iter(range(1, 9))
    server.says["of this kind"] = lambda: reply(json.dumps({"instruction": f"Do thing {next(written)}."}))
    async with server.serving() as url:
        made = await data.prepare("instructions", url, "--candidates", 4)
    assert counts(made) == {"made": 4, "had": 1}
    *new, old = data.items()
    assert [one["id"] for one in new] == [f"set/0--{n}" for n in (1, 2, 3, 4)]
    assert len({one["instruction"] for one in new}) == server.count == 4, "each is asked for once"
    assert new[2]["extra"] == {"mine": 1, "candidate": 3, "candidate_of": "set/0"}
    assert old["id"] == "set/1"
    assert server.asked_about("Do thing 1.\\nDo thing 2.\\nDo thing 3.") == 1, "another thing than those before"

    folder = Folder(data.out)
    names = [one["id"] for one in new]
    decided = save(folder, decide(folder, DraftData(folder.items), **dict.fromkeys(names, "accept")))
    refused = await run_prepare("review", data.out, decided)
    assert refused.code == 2
    assert "accepts more than 3 instructions of one item: set/0" in refused.err
    save(folder, decide(folder, DraftData(folder.items), **dict.fromkeys(names[1:], "accept")))
    assert (await run_prepare("review", data.out, decided)).code == 0
    assert [one["id"] for one in data.items("accepted.jsonl")] == [*names[1:], "set/1"]


async def test_pairs_and_dialogues_are_written_from_a_description(data: Set) -> None:
    data.write(2, _0={"instruction": "", "task": "low and high"}, _1={"instruction": "", "task": "Dialogue"})
    server = Writer()
    written = itertools.count(1)
    server.says = {
        "Describe the source image": {"description": "A cup on a table."},
        "A cup on a table.": lambda: reply(json.dumps({"instruction": f"Do thing {next(written)}."})),
    }
    async with server.serving() as url:
        made = await data.prepare("instructions", url)
        await data.prepare("instructions", url, "--candidates", 5, out=data.out.parent / "five")
    assert counts(made) == {"made": 4}
    assert [(one["id"], one["task"]) for one in data.items()] == [
        ("set/0--1", "low"), ("set/0--2", "high"), ("set/1--1", "low"), ("set/1--2", "high"),
    ]  # fmt: skip
    assert server.asked_about("and yours is about something else.") > 0
    assert server.asked_about("yours is the next edit, of what came of it.") > 0
    assert server.asked_about("Another thing takes the place of one.") > 0, "the high scale has its words"
    assert "A cup on a table." in (data.out / "review.html").read_text()

    folder = Folder(data.out.parent / "five")
    turns = [f"set/1--{n}" for n in range(1, 6)]
    for accept, code in ((turns[:4], 0), (turns[1:], 2), ([*turns[:2], turns[4]], 2)):
        decided = save(folder, decide(folder, DraftData(folder.items), **dict.fromkeys(accept, "accept")))
        done = await run_prepare("review", folder.path, decided)
        assert done.code == code, done.err
        assert ("accepts a turn of set/1 after one that is not accepted; reject it too" in done.err) is (code == 2)


async def test_instructions_are_written_for_pictures_without(data: Set) -> None:
    data.write(4, _0={"instruction": ""}, _2={"instruction": " \u3000", "task": "Remove Object"})
    server = Writer()
    async with server.serving() as url:
        first = await data.prepare("instructions", url)
        again = await data.prepare("instructions", url)
    assert counts(first) == counts(again) == {"made": 2, "had": 2}
    assert server.count == 2, "each is asked about once"
    told = [one["instruction"] for one in data.items()]
    assert told == ["Take the cup away.", "edit number 1.", "Take the cup away.", "edit number 3."]
    assert "Take the cup away." in (data.out / "review.html").read_text()


async def test_what_is_written_can_be_run(data: Set) -> None:
    data.write(3)
    writer = Writer()
    async with writer.serving() as url:
        done = await run_prepare(*data.arguments("facts", "--generalist", url))
    assert done.code == 0, done.err
    assert "facts: 3 made" in done.out
    assert data.items()[0]["questions"] == [{"question": "Is it red?", "answer": "Yes"}]
    assert not any(b"image_url" in body for body in writer.bodies), "from the instruction alone"
    (outputs := data.folder.parent / "outputs" / "set").mkdir(parents=True)
    for index in range(3):
        shutil.copy(data.folder / "images" / f"{index}.png", outputs)
    judged = await run_in_thread(
        *("run", "core", "--data", data.out / "items.jsonl", "--outputs", f"m={outputs.parent}"),
        *("--out", data.folder / "run", "--dimension", "core.psnr.source.whole"),
    )
    assert judged.code == 0, judged.err
    assert "(3/3)" in judged.out


async def test_one_refusal_and_one_unreadable_reply_cost_their_items_only(data: Set) -> None:
    data.write(5)
    server = Writer()
    server.says = {
        "edit number 1.": lambda: reply(None, message={"refusal": "I will not"}),
        "edit number 3.": {"question": "Which?", "answer": "Red", "wrong": ["red."]},
    }
    async with server.serving() as url:
        first = await data.prepare("questions", url, code=3)
        assert counts(first) == {"made": 3, "failed": 2}
        assert first.json["exit_code"] == 3
        failed = first.json["reasons"]["failed"]
        assert "refused" in failed["set/1"]
        assert "two of the answers are the same" in failed["set/3"]
        assert server.asked_about("edit number 3.") == 2, "once more where it cannot be read"
        assert "questions" not in data.items()[1]
        page = (data.out / "review.html").read_text()
        assert "two of the answers are the same" in page

        server.says, seen = {}, server.count
        again = await data.prepare("questions", url)
    assert counts(again) == {"made": 5}
    assert server.count == seen + 2, "only what failed is asked again"


async def test_a_server_that_dies_midway_is_gone_on_with(data: Set) -> None:
    data.write(12)
    server = Writer()
    server.lives = 6
    async with server.serving() as url:
        port = int(url.split(":")[2].partition("/")[0])
        asked = data.arguments("questions", "--generalist", url)
        dying = await run_prepare(*asked)
        assert dying.code == 3, dying.err
        assert "failed: set/" in dying.err
        assert "repeat the command" in dying.err
    answered = [line["id"] for line in data.items() if "questions" in line]
    assert len(answered) == 6

    gone = await run_prepare(*asked)
    assert gone.code == 1, gone.err
    assert "generalist.judge" in gone.err
    assert [line["id"] for line in data.items() if "questions" in line] == answered

    fixed = Writer()
    async with fixed.serving(port=port):
        done = await run_prepare(*asked, "--json")
    assert done.code == 0, done.err
    assert len(fixed.requests) == 6
    assert not any(fixed.asked_about(f"edit number {name[4:]}.") for name in answered)
    assert counts(done) == {"made": 12}


async def test_an_interrupted_preparation_goes_on(data: Set) -> None:
    data.write(6)
    server = Writer()
    server.script = [*[None] * 4, 30.0, None]
    async with server.serving() as url:
        asked = data.arguments("questions", "--generalist", url)
        with process("prepare", *asked, EDITJUDGE_CONCURRENCY="1") as started:
            await until(lambda: server.count >= 4)
            started.send_signal(signal.SIGINT)
            done = await await_end(started, 20)
        assert done.code == 130, done.err
        assert "interrupted; repeat the command" in done.err
        assert "Traceback" not in done.err
        server.script = [None]
        await data.prepare("questions", url)
    assert server.count == 4 + 3


async def test_another_judge_writes_all_anew_and_the_limit_is_kept(data: Set) -> None:
    data.write(4)
    server = Writer()
    async with server.serving() as url:
        few = await data.prepare("questions", url, "--limit", 1)
        assert counts(few) == {"made": 1, "left": 3}
        assert len(data.items()) == 4
        server.models, server.answers_as = ("other",), "other"
        done = await data.prepare("questions", url)
    assert counts(done) == {"made": 4}
    assert server.count == 5


async def test_the_money_is_not_passed(data: Set, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.write(8)
    monkeypatch.setenv("EDITJUDGE_CONCURRENCY", "1")
    server = Writer()
    async with server.serving() as url:
        config = tmp_path / "editjudge.toml"
        config.write_text(f'[judges.judge]\nurl = "{url}"\nprice = {{ input = 10000, output = 0 }}\n')
        asked = data.arguments("questions", "--config", config, "--json")
        ended = await run_prepare(*asked, "--max-cost", "3.5")
        assert ended.code == 3, ended.err
        assert counts(ended) == {"made": 3, "failed": 5}
        more = await run_prepare(*asked, "--max-cost", "50")
    assert more.code == 0, more.err
    assert server.count == 8


URL = "http://127.0.0.1:9/v1"
BAD: dict[str, tuple[Callable[[Set], list[Any]], str]] = {
    "no judge": (lambda d: d.arguments("questions"), "no judge is configured"),
    "no segmenter of this name": (
        lambda d: d.arguments("masks", "--generalist", URL, "--segmenter", "sam"),
        "give one of segmenter.grounded_sam",
    ),
    "no data": (lambda d: ["questions", "--data", "x", "--out", d.out], "x: no such file"),
    "onto the data": (lambda d: d.arguments("questions", "--generalist", URL, out=d.folder), "holds the data itself"),
    "a folder with other items": (
        lambda d: d.arguments("questions", "--generalist", URL, out=_file(d, "other/items.jsonl")),
        "no preparation wrote it",
    ),
    "no kind": (lambda d: d.arguments("answers"), "'answers' is not one of"),
    "not for it": (lambda d: d.arguments("facts", "--select", "all"), "it is for masks"),
    "not served": (lambda d: d.arguments("questions", "--generalist", URL), "127.0.0.1:9"),
    "nothing to review": (
        lambda d: ["review", d.out, _file(d, "other/review.json") / "review.json"],
        "holds no preparation",
    ),
    "no gie": (lambda d: ["gie", "--data", "no.json", "--out", d.out], "no.json"),
}


def _file(data: Set, name: str) -> Path:
    """Write a file of somebody's; its folder."""
    file = data.folder.parent / name
    file.parent.mkdir()
    file.write_text("{}\n")
    return file.parent


@pytest.mark.parametrize("case", BAD)
async def test_what_cannot_be_prepared_is_said_in_one_error(data: Set, case: str) -> None:
    data.write(2)
    make, said = BAD[case]
    done = await run_prepare(*make(data))
    assert done.code == (1 if case == "not served" else 2), done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


async def test_a_source_that_cannot_be_read_is_listed(data: Set) -> None:
    data.write(3)
    (data.folder / "images" / "1.png").write_bytes(b"no picture")
    server = Writer()
    async with server.serving() as url:
        done = await run_prepare(*data.arguments("questions", "--generalist", url))
    assert done.code == 3, done.err
    assert "failed: set/1:" in done.err
    assert "not an image" in done.err
    assert "questions: 2 made, 1 failed" in done.out.replace("choice", "questions")


async def test_a_folder_is_for_one_preparation(data: Set) -> None:
    data.write(1)
    server = Writer()
    async with server.serving() as url:
        asked = data.arguments("questions", "--generalist", url)
        assert (await run_prepare(*asked)).code == 0
        kind = await run_prepare("facts", *asked[1:])
        data.write(2)
        changed = await run_prepare(*asked)
    for done in (kind, changed):
        assert done.code == 2, done.err
        assert "give another folder" in done.err
    assert server.count == 1


async def test_gie_bench_is_converted_once(data: Set) -> None:
    mask = np.zeros((224, 224), int).tolist()
    record = {
        "edit_instruction": "Make the cup red.",
        "evaluation_question": "Which colour has the cup?",
        "expected_answer": "Red",
        "multiple_choice_options": ["Red", "Blue", "I can not tell from the image"],
        "edit_type": "Color Change",
        "image": "/food/1.jpg",
        "image_content_type": "food",
        "object_mask": mask,
        "url": "https://images.invalid/1",
    }
    released = data.folder / "gie_bench.json"
    released.write_text(json.dumps([record, record | {"expected_answer": "Mauve"}]))
    done = await run_prepare("gie", "--data", released, "--out", data.out)
    assert done.code == 0, done.err
    assert "2 items" in done.out
    assert "cannot be won" in done.out
    as_json = (await run_prepare("gie", "--data", released, "--out", data.out, "--json")).json
    assert (as_json["items"], as_json["data"]) == (2, str(data.out))
    assert any("all-black" in note for note in as_json["notes"])
