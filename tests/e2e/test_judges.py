"""Several judges and several rounds: `run` and `summary` against scripted judges."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ..fakes.openai import Fault, ScriptedOpenAi, reply
from .conftest import run_in_process
from .test_run import PIXELS, Data, command, ran

ARTIFACTS, FOLLOWED = "core.editing_artifacts", "core.instruction_following"
WORDS = {1: "excellent", 0.75: "good", 0.5: "fair", 0.25: "poor", 0: "bad"}
COUNT, REPEATS = 6, 2
# What each judge says of the six edits, in each of its rounds.
SAID: Mapping[str, Mapping[str, tuple[tuple[float, ...], ...]]] = {
    "judge": {
        ARTIFACTS: ((1, 1, 0, 0, 1, 0), (1, 1, 0, 0, 0, 0)),
        FOLLOWED: ((1, 0.75, 0.5, 0.25, 0, 0.5), (1, 0.75, 0.5, 0.5, 0, 0.5)),
    },
    "second": {
        ARTIFACTS: ((1, 0, 0, 0, 1, 1), (1, 0, 0, 0, 1, 1)),
        FOLLOWED: ((0.75, 0.75, 0.25, 0.25, 0, 0), (1, 0.75, 0.25, 0.25, 0, 0)),
    },
}
TELLING = {ARTIFACTS: "damage that the edit did", FOLLOWED: "carry out what the editor was told"}
Says = Callable[[str, int], Any]
"""From the text of a request and its seed, which is the round from 0, to the reply."""


class Judge(ScriptedOpenAi):
    """Answers by what it is asked, and how often: the seed tells the round."""

    def __init__(self, name: str, says: Says) -> None:
        super().__init__(models=(name,), answers_as=name)
        self.says = says
        self.seconds = 0.0

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        asked = json.loads(await request.read())
        answer = self.says(json.dumps(asked["messages"]), asked["seed"])
        if isinstance(answer, Fault):
            self.requests.append(asked)
            return web.json_response(answer.body, status=answer.status)
        # One at a time, so that this reply is the next one's.
        self.script = [answer]
        return await super()._chat(request)


def level(judge: str, text: str, seed: int) -> Any:
    number = re.search(r"edit (\d)", text)
    assert number
    dimension = next(name for name, words in TELLING.items() if words in text)
    return reply(WORDS[SAID[judge][dimension][seed][int(number[1])]])


@asynccontextmanager
async def judges(folder: Path, **says: Says) -> AsyncIterator[tuple[list[Any], list[Judge]]]:
    """Judges by name, and the arguments that ask all of them."""
    async with AsyncExitStack() as stack:
        servers, lines = [], []
        for name, one in says.items():
            servers.append(Judge(f"model-{name}", one))
            url = await stack.enter_async_context(servers[-1].serving())
            lines.append(f'[judges.{name}]\nurl = "{url}"\nlogprobs = "never"\n')
            lines.append("price = { input = 1000.0, output = 0.0 }\n")
        config = folder / "judges.toml"
        config.write_text("\n".join(lines))
        named = [part for name in says for part in ("--judge", name)]
        yield ["--config", config, *named], servers


def levels() -> dict[str, Says]:
    return {
        name: lambda text, seed, name=name: level(name, text, seed)  # type: ignore[misc]
        for name in SAID
    }


@pytest.fixture
def data(tmp_path: Path) -> Data:
    (tmp_path / "data").mkdir()
    found = Data(tmp_path / "data")
    found.items(COUNT)
    found.model("a", COUNT)
    return found


def figures(run: Path) -> dict[tuple[str, str, str], Any]:
    """The figures of agreement by dimension, judges and name, and the number of edits."""
    return {
        (table["dimension"], row["who"], name): (figure["value"], row["records"])
        for table in run_in_process("agreement", run, "--json").json["tables"]
        for row in table["rows"]
        for name, figure in row["figures"].items()
    }


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-12)


async def test_two_judges_twice_by_hand(data: Data, tmp_path: Path) -> None:
    asked = data.arguments(PIXELS, ARTIFACTS, FOLLOWED)
    async with judges(tmp_path, **levels()) as (flags, servers):
        run = ["run", *asked, *flags, "--rounds", REPEATS]
        estimate = await ran(*run, "--dry-run", "--json")
        done = await ran(*run)
        assert done.code == 0, done.err
        made = [len(server.requests) for server in servers]
    each = 2 * COUNT * REPEATS
    assert estimate.json["calls"] == {"generalist.judge": each, "generalist.second": each}
    assert estimate.json["verdicts"] == COUNT * (1 + 2 * (2 * REPEATS + 1))
    assert made == [each, each]
    assert "@" not in done.out, "judges and rounds are in the summary"
    (row,) = [line for line in done.out.splitlines() if line.startswith(("│ a ", "│   "))]
    assert "0.4583 (6/6)" in row
    rows = [line for line in run_in_process("summary", data.out).out.splitlines() if line.startswith(("│ a ", "│   "))]
    assert [row.split()[1] for row in rows] == ["a", "judge", "second"]
    shares = ("0.4583", "0.4167 sd 0.12 (6/6)", "0.5 sd 0 (6/6)")
    assert [share in row for row, share in zip(rows, shares, strict=True)] == [True] * 3

    table = run_in_process("summary", data.out, "--json")
    cells = table.json["models"]["a"]
    assert cells[ARTIFACTS]["value"] == close((2.5 / 6 + 3 / 6) / 2)
    assert (cells[ARTIFACTS]["scored"], cells[ARTIFACTS]["asked"]) == (6, 6)
    alone = table.json["judges"]["a"]
    assert list(alone) == ["judge", "second"]
    due = {
        "value": close(2.5 / 6),
        "sd": close(1 / 6 / math.sqrt(2)),
        "rounds": [close(3 / 6), close(2 / 6)],
        "scored": 6,
        "asked": 6,
        "reason": "",
    }
    assert {name: alone["judge"][ARTIFACTS][name] for name in due} == due
    assert alone["second"][ARTIFACTS]["sd"] == 0
    assert alone["second"][FOLLOWED]["rounds"] == [close(2 / 6), close(2.25 / 6)]
    assert cells[ARTIFACTS]["rounds"] == [close(0.5), close((2 / 6 + 3 / 6) / 2)]
    assert cells[ARTIFACTS]["sd"] == close(1 / 12 / math.sqrt(2))
    assert cells[PIXELS]["rounds"] == []
    assert PIXELS not in alone["judge"]

    found = figures(data.out)
    # 4 of 6 alike in the first round, 3 in the second; 5 and 6 of 12 times yes, so by chance half.
    assert found[ARTIFACTS, "judge, second", "equal"] == (close(7 / 12), 6)
    assert found[ARTIFACTS, "judge, second", "kappa"] == (close((7 / 12 - 0.5) / 0.5), 6)
    assert {name for name, *_ in found} == {ARTIFACTS, FOLLOWED}

    shown = run_in_process("summary", data.out).out
    assert re.search(r"mean of the judges \S+ \(judge\), \S+ \(second\), 2 rounds each; run of", shown)
    assert re.search(r"0\.4583( [±+]\S+)? sd 0\.059 \(6/6\)", shown), shown
    assert re.search(r"│ {3}judge +│ .*0.4167 sd 0.12 \(6/6\)", shown), shown
    assert "0.583" in run_in_process("agreement", data.out).out


async def test_where_one_judge_fails_there_is_no_mean(data: Data, tmp_path: Path) -> None:
    broken = True

    def second(text: str, seed: int) -> Any:
        if broken and "edit 3" in text:
            return Fault(400, {"error": {"message": "no"}})
        if "edit 5" in text and seed == 1:
            return reply(None, message={"refusal": "I cannot help with that."})
        return level("second", text, seed)

    says = levels() | {"second": second}
    async with judges(tmp_path, **says) as (flags, servers):
        run = ["run", *data.arguments(ARTIFACTS), *flags, "--rounds", REPEATS]
        done = await ran(*run)
        table = run_in_process("summary", data.out, "--json")
        found = figures(data.out)
        made = len(servers[1].requests)
        broken = False
        fixed = await ran(*run)
    assert done.code == 3, done.err
    cell = table.json["models"]["a"][ARTIFACTS]
    assert cell["counts"] == {"scored": 4, "failed": 1, "unscored": 1}
    # Of the edits 0, 1, 2 and 4.
    assert cell["value"] == close((2.5 / 4 + 2 / 4) / 2)
    alone = table.json["judges"]["a"]
    assert (alone["judge"][ARTIFACTS]["scored"], alone["judge"][ARTIFACTS]["asked"]) == (6, 6)
    assert alone["judge"][ARTIFACTS]["value"] == close(2.5 / 6)
    # Its first round has a number for edit 5, and counts on the same edits as the second.
    assert alone["second"][ARTIFACTS]["rounds"] == [close(2 / 4), close(2 / 4)]
    assert (alone["second"][ARTIFACTS]["scored"], alone["second"][ARTIFACTS]["asked"]) == (4, 6)
    # 3 of 4 alike in the first round and 2 of 4 in the second.
    assert found[ARTIFACTS, "judge, second", "equal"] == (close(5 / 8), 4)
    assert found[ARTIFACTS, "second, its rounds", "always_equal"] == (1, 4)
    assert found[ARTIFACTS, "judge, its rounds", "always_equal"] == (close(5 / 6), 6)
    assert fixed.code == 0, fixed.err
    assert len(servers[1].requests) - made == REPEATS, "only what failed"
    again = run_in_process("summary", data.out, "--json").json["models"]["a"][ARTIFACTS]
    assert again["counts"] == {"scored": 5, "unscored": 1}


def test_a_judge_that_is_not_there_is_named(data: Data) -> None:
    given = ["--generalist", "http://127.0.0.1:9/v1", "--judge", "nobody"]
    done = command("run", *data.arguments(ARTIFACTS), *given)
    assert done.code == 2
    assert "--judge nobody: no judge has this name (there are: judge)" in done.err
    assert "--judge nobody=URL" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not data.out.exists()


async def test_both_judges_spend_from_one_budget(data: Data, tmp_path: Path) -> None:
    async with judges(tmp_path, **levels()) as (flags, servers):
        run = ["run", *data.arguments(ARTIFACTS), *flags]
        # A call takes 100 prompt tokens, and so 0.1; the first eight begin before that is known.
        done = await ran(*run, "--max-cost", 0.95)
        assert done.code == 3
        assert "ended early to stay below max_cost" in done.err
        spent = 0.1 * sum(len(server.requests) for server in servers)
        assert 0.3 < spent <= 0.95
        on = await ran(*run, "--max-cost", 100)
    assert on.code == 0, on.err
    assert [len(server.requests) for server in servers] == [COUNT, COUNT]
