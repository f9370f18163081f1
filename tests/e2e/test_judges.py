"""Several judges and several rounds: `run` and `summary` against scripted judges."""

from __future__ import annotations

import asyncio
import csv
import json
import math
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ..fakes.openai import Fault, ScriptedOpenAi, reply
from ..patience import until
from ..unit.benchmarks.kris.made import picture, released
from .conftest import Ran, here
from .test_run import PIXELS, Data, command, process, ran

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


def figures(table: Ran) -> dict[tuple[str, ...], Any]:
    """The figures of agreement by dimension, judges and name, and the number of edits."""
    return {
        (one["dimension"], *one["judges"], name): (figure["value"], one["edits"])
        for one in table.json["agreement"]
        for name, figure in one["figures"].items()
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
    out = asked.index("--out")
    named = ["--judge", "judge", "--judge", "second", "--rounds", REPEATS]
    checked = here("validate", *asked[:out], *asked[out + 2 :], *named, "--json")
    assert checked.json["calls"] == estimate.json["calls"]
    assert estimate.json["verdicts"] == COUNT * (1 + 2 * (2 * REPEATS + 1))
    assert made == [each, each]
    assert "@" not in done.out, "rounds are in the summary"
    rows = [line for line in done.out.splitlines() if line.startswith(("│ a ", "│   "))]
    assert [row.split()[1] for row in rows] == ["a", "judge", "second"]
    shares = ("0.4583 (6/6)", "0.4167 sd 0.12 (6/6)", "0.5 sd 0 (6/6)")
    assert [share in row for row, share in zip(rows, shares, strict=True)] == [True] * 3

    table = here("summary", data.out, "--json")
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

    found = figures(table)
    # 4 of 6 alike in the first round, 3 in the second; 5 and 6 of 12 times yes, so by chance half.
    assert found.pop((ARTIFACTS, "judge", "second", "agreement")) == (close(7 / 12), 6)
    assert found.pop((ARTIFACTS, "judge", "second", "kappa")) == (close((7 / 12 - 0.5) / 0.5), 6)
    assert found.pop((ARTIFACTS, "judge", "equal")) == (close(5 / 6), 6)
    assert found.pop((ARTIFACTS, "judge", "standard_deviation")) == (close(0.5**0.5 / 6), 6)
    assert found.pop((ARTIFACTS, "second", "equal")) == (1, 6)
    assert found.pop((ARTIFACTS, "second", "standard_deviation")) == (0, 6)
    pair = (FOLLOWED, "judge", "second")
    assert found.pop((*pair, "mean_absolute_difference")) == (close(2 / 12), 6)
    stats = pytest.importorskip("scipy.stats")
    one, other = ([v for said in SAID[name][FOLLOWED] for v in said] for name in SAID)
    rho = float(stats.spearmanr(one, other).statistic)
    assert found.pop((*pair, "spearman")) == (close(rho), 6)
    assert {key[0] for key in found} == {FOLLOWED}
    assert len(found) == 4

    shown = here("summary", data.out).out
    assert re.search(
        r"mean of the judges \S+ \(judge\), \S+ \(second\), 2 rounds each; run of", shown
    )
    assert re.search(r"0\.4583( [±+]\S+)? sd 0\.059 \(6/6\)", shown), shown
    assert re.search(r"│ {3}judge +│ .*0.4167 sd 0.12 \(6/6\)", shown), shown
    assert "58.3%" in shown


async def test_every_verb_knows_what_one_judge_said(data: Data, tmp_path: Path) -> None:
    async with judges(tmp_path, **levels()) as (flags, servers):
        run = ["run", *data.arguments(ARTIFACTS), *flags, "--rounds", REPEATS]
        assert (await ran(*run)).code == 0
        alone = await ran("run", *data.arguments(ARTIFACTS, out=tmp_path / "x"), *flags[:4])
        assert alone.code == 0, alone.err
        other = await ran("run", *data.arguments(ARTIFACTS), *flags[:4])
        made = [len(server.requests) for server in servers]
        again = await ran(*run)
    assert again.code == 0
    assert "nothing was left to judge" in again.err
    assert [len(server.requests) for server in servers] == made
    assert other.code == 2
    assert "judges" in other.err
    ids = [f"{ARTIFACTS}@{judge}.{n}" for judge in SAID for n in (1, 2)] + [ARTIFACTS]

    shown = here("show", data.out, "set/4", "--json")
    verdicts = {one["dimension"]: one["value"] for one in shown.json["edits"][0]["verdicts"]}
    assert verdicts == dict(zip(ids, [1, 0, 1, 1, 0.75], strict=True))

    assert here("export", data.out, "--format", "csv", "--out", tmp_path / "x.csv").code == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = {(row["item"], row["dimension"]): row for row in csv.DictReader(file)}
    assert len(rows) == COUNT * len(ids)
    assert rows["set/4", ids[1]]["value"] in {"0", "0.0"}

    changes = (await asyncio.to_thread(here, "rescore", data.out, "--json")).json
    assert {one["dimension"]: (one["changed"], one["kept"]) for one in changes} == dict.fromkeys(
        ids, (0, 0)
    )

    merged = here("merge", data.out, tmp_path / "x", "--out", tmp_path / "y")
    assert merged.code == 2
    assert "judges" in merged.err
    assert here("merge", data.out, "--out", tmp_path / "z").code == 0
    same = here("summary", tmp_path / "z", "--json").json
    assert same["judges"] == here("summary", data.out, "--json").json["judges"]

    # The usual judge, once, has a table without more.
    plain = here("summary", tmp_path / "x", "--json").json
    assert plain["judges"] == {}
    assert plain["rounds"] == 1
    assert plain["agreement"] == []


async def test_killed_it_goes_on_with_every_replica(data: Data, tmp_path: Path) -> None:
    asked = (PIXELS, ARTIFACTS, FOLLOWED)
    async with judges(tmp_path, **levels()) as (flags, servers):
        more = [*flags, "--rounds", REPEATS]
        assert (await ran("run", *data.arguments(*asked, out=tmp_path / "whole"), *more)).code == 0

        def made() -> int:
            return sum(len(server.requests) for server in servers)

        calls = made()
        for server in servers:
            server.seconds = 0.1
        with process("run", *data.arguments(*asked), *more) as started:
            await until(lambda: made() >= calls + 12)
            started.send_signal(signal.SIGKILL)
            await asyncio.to_thread(started.communicate)
        assert made() < 2 * calls
        partly = here("summary", data.out, "--json").json
        for server in servers:
            server.seconds = 0.0
        done = await ran("run", *data.arguments(*asked), *more)
    assert done.code == 0, done.err
    in_flight = 2 * 4
    assert made() <= 2 * calls + in_flight
    assert data.verdicts() == data.verdicts(tmp_path / "whole")
    counts = partly["models"]["a"][FOLLOWED]["counts"]
    assert sum(counts.values()) == COUNT
    assert counts.get("pending"), counts
    own = partly["judges"]["a"]["second"][FOLLOWED]
    assert own["asked"] == COUNT


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
        table = here("summary", data.out, "--json")
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
    found = figures(table)
    # 3 of 4 alike in the first round and 2 of 4 in the second.
    assert found[ARTIFACTS, "judge", "second", "agreement"] == (close(5 / 8), 4)
    assert found[ARTIFACTS, "second", "equal"] == (1, 4)
    assert found[ARTIFACTS, "judge", "equal"] == (close(5 / 6), 6)
    assert fixed.code == 0, fixed.err
    assert len(servers[1].requests) - made == REPEATS, "only what failed"
    again = here("summary", data.out, "--json").json["models"]["a"][ARTIFACTS]
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


def knows(judge: str, text: str, seed: int) -> Any:
    """One judge wavers on the knowledge of biology 1; the other says biology 2 is not followed."""
    first = judge == "judge"
    scores = {"consistency": 4 if first else 2, "quality": 5, "instruction": 4, "knowledge": 4}
    if first:
        scores["knowledge"] = 3 + seed if "do biology 1" in text else 5
    elif "do biology 2" in text:
        scores["instruction"] = 2
    asked = re.findall(r'- \\"(\w+)\\"', text.partition("Its keys, in this order")[2])
    answer = {k: scores.get(k.removesuffix("_score"), "seen") for k in asked}
    return reply(json.dumps(answer))


async def test_a_papers_table_by_two_judges(tmp_path: Path) -> None:
    released(tmp_path / "data", biology=2, count_change=1)
    for seed, name in enumerate(("biology/1", "biology/2", "count_change/1"), 7):
        picture(tmp_path / "ours" / f"{name}.jpg", seed)
    out = tmp_path / "run"
    asked = ["kris", "--data", tmp_path / "data", "--outputs", f"ours={tmp_path / 'ours'}"]
    says: dict[str, Says] = {
        name: lambda text, seed, name=name: knows(name, text, seed)  # type: ignore[misc]
        for name in ("judge", "second")
    }
    async with judges(tmp_path, **says) as (flags, servers):
        run = ["run", *asked, "--out", out, *flags, "--rounds", 3]
        done = await ran(*run)
        assert done.code == 0, done.err
        made = [len(server.requests) for server in servers]
    assert made == [3 * 3 * 3] * 2
    table = here("summary", out, "--json")
    column = "kris.natural_science.knowledge_plausibility"
    one, two = (table.json["judges"]["ours"][name] for name in ("judge", "second"))
    # Knowledge 3, 4, 5 beside 5, in percent; 4 beside 1, which what is not followed gives.
    assert one[column]["rounds"] == [75, 87.5, 100]
    assert (one[column]["value"], one[column]["sd"]) == (close(87.5), close(12.5))
    assert two[column]["rounds"] == [37.5] * 3
    assert (two[column]["value"], two[column]["sd"]) == (37.5, 0)
    assert table.json["models"]["ours"][column]["value"] == close(62.5)
    both = table.json["models"]["ours"][column]
    assert both["rounds"] == [close(56.25), close(62.5), close(68.75)]
    assert both["sd"] == close(6.25)
    # Composites by column: (consistency + quality + instruction + knowledge) / 4.
    assert one["kris.natural_science"]["value"] == close((75 + 100 + 75 + 87.5) / 4)
    assert one["kris.natural_science"]["sd"] == close(12.5 / 4)
    assert two["kris.natural_science"]["value"] == close((25 + 100 + 50 + 37.5) / 4)
    assert one["kris.attribute_perception.visual_consistency"]["value"] == 75
    by_name = {
        (one["dimension"], len(one["judges"])): one["figures"] for one in table.json["agreement"]
    }
    constant = by_name["kris.visual_consistency", 2]
    assert constant["mean_absolute_difference"]["value"] == 2
    assert constant["spearman"]["value"] is None
    assert constant["spearman"]["reason"] == "a judge gives every edit the same value"
    assert by_name["kris.visual_quality", 2]["kappa"]["value"] is None
    known = by_name["kris.knowledge_plausibility", 2]
    assert known["mean_absolute_difference"]["value"] == close((1 + 0 + 1 + 3 * 4) / 6)
    shown = here("summary", out).out
    assert re.search(r"62\.50( ±\S+)? sd 6\.25 \(2/2\)", shown), shown
    assert re.search(r"│ {3}judge +│ +87.50 sd 12.50 \(2/2\)", shown)
    assert "a judge gives every edit the same value" in shown
