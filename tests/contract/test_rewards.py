"""Rewards over HTTP: our schema, the dialects of trainers, and what happens when things fail."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
from PIL import Image

from editjudge.base.digest import content_digest
from editjudge.base.errors import InputError
from editjudge.rewards.json_reader import JsonReader
from editjudge.rewards.schema import RewardRequest, make_reward_schema
from editjudge_services.gateway import reward_bodies
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.rewards import RewardService

from ..fakes.openai import Fault, reply
from ..judge_service import JSON, RunningService, png, priced_settings, scripted_judge, serve, teams_of

ROOT = Path(__file__).parents[2]
PIXELS = """
[rewards.quality.parts]
"core.ssim.source.whole" = {}
[rewards.quality.gates.unchanged_copy]
dimension = "core.mse.source.whole"
below = 0.5
"""
JUDGE = """
[rewards.quality.parts]
"core.instruction_following" = {}
"""
SECOND = '[rewards.other.parts]\n"core.mse.source.whole" = {}\n'


def encode(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def make_batch(*edited: int, **more: Any) -> dict[str, Any]:
    """A batch in our schema: edits of one source."""
    edits = [
        {
            "id": f"e{seed}",
            "source": {"data": encode(png(0))},
            "instruction": "make it red",
            "edited": {"data": encode(png(seed))},
        }
        for seed in edited
    ]
    return {"edits": edits, **more}


def unirl(*edited: int, **more: Any) -> dict[str, Any]:
    turns = ({"text": "make it red", "image_b64": encode(png(0))},)
    return {
        "requests": [
            {
                "history": [*turns, {"text": "make it red", "image_b64": encode(png(seed))}],
                "required_rewards": ["quality"],
                "metadata": None,
                **more,
            }
            for seed in edited
        ]
    }


def flow_factory(*edited: int, **more: Any) -> dict[str, Any]:
    return {
        "prompt": ["make it red"] * len(edited),
        "image": [encode(png(seed)) for seed in edited],
        "video": None,
        "condition_images": [[encode(png(0))]] * len(edited),
        "kwargs": None,
        **more,
    }


def file(folder: Path, text: str) -> Path:
    (folder / "reward.toml").write_text(text)
    return folder / "reward.toml"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[RunningService]:
    roots = f'roots = {{ "" = "{tmp_path / "pictures"}" }}\n'
    (tmp_path / "pictures").mkdir()
    async with serve(reward=file(tmp_path, roots + PIXELS), rate=100_000) as service:
        yield service


async def test_a_batch_in_our_schema(service: RunningService) -> None:
    status, answer = await service.post(make_batch(1, 2, 0), "/v1/rewards")
    assert status == 200, answer
    schema = make_reward_schema()
    jsonschema.validate(answer, {**schema, "oneOf": [{"$ref": "#/$defs/RewardReply"}]})
    jsonschema.validate(make_batch(1), {**schema, "oneOf": [{"$ref": "#/$defs/RewardRequest"}]})
    assert (await service.get("/v1/rewards/schema.json"))[1] == schema
    first, second, copy = (each["rewards"]["quality"] for each in answer["results"])
    assert [each["id"] for each in answer["results"]] == ["e1", "e2", "e0"]
    assert 0 < first["reward"] < 1
    assert first["signature"] == second["signature"] != ""
    assert copy["reward"] == 0.0
    assert copy["parts"]["gate.unchanged_copy"]["cap"] == 0.0
    summary = answer["summary"]["quality"]
    assert (summary["groups"], summary["gates"], summary["lowest"]) == (1, {"unchanged_copy": 1}, 1)
    metrics = await service.metrics()
    label = 'reward="quality",team=""'
    assert f'editjudge_reward_edits_total{{outcome="scored",{label}}} 3.0' in metrics
    assert f'editjudge_reward_gates_total{{gate="unchanged_copy",{label}}} 1.0' in metrics
    assert f"editjudge_reward_groups_total{{{label.replace('team', 'spread', 0)}" not in metrics
    assert re.search(r"editjudge_reward_spread_count\{.*quality.*\} 1.0", metrics)
    assert all(took > 0 for took in summary["seconds"].values())
    for dimension in ("core.ssim.source.whole", "core.mse.source.whole"):
        assert dimension in summary["seconds"]
        assert f'editjudge_reward_part_seconds_count{{dimension="{dimension}",{label}}} 1.0' in metrics


async def test_pictures_by_digest_part_and_path(service: RunningService, tmp_path: Path) -> None:
    batch = make_batch(1)
    (edit,) = batch["edits"]
    edit["source"] = {"digest": content_digest(png(0))}
    status, answer = await service.post(batch, "/v1/rewards")
    assert status == 400
    assert answer["error"]["field"] == "edits[0].source.digest"
    _, by_bytes = await service.post(make_batch(1), "/v1/rewards")
    status, by_digest = await service.post(batch, "/v1/rewards")
    assert by_digest["results"] == by_bytes["results"]
    other_team = await service.post(batch, "/v1/rewards", {**JSON, "x-team": "red"})
    assert other_team[0] == 400, "a team does not see what another sent"

    (tmp_path / "pictures" / "before.png").write_bytes(png(0))
    edit["source"] = {"path": "before.png"}
    _, by_path = await service.post(batch, "/v1/rewards")
    assert by_path["results"] == by_bytes["results"]

    edit["source"], edit["edited"] = {"part": "before"}, {"part": "after"}
    with aiohttp.MultipartWriter("mixed") as writer:
        pictures = {"before": png(0), "after": png(1)}
        for name, data in {"request": json.dumps(batch).encode(), **pictures}.items():
            part = writer.append(data)
            part.set_content_disposition("attachment", name=name)
    async with service.session.post(service.web + "/v1/rewards", data=writer) as got:
        assert (await got.json())["results"] == by_bytes["results"]
    with aiohttp.MultipartWriter("mixed") as cut_short:
        part = cut_short.append(b'{"edits": ["')
        part.set_content_disposition("attachment", name="request")
    async with service.session.post(service.web + "/v1/rewards", data=cut_short) as got:
        error = (await got.json())["error"]
    assert (got.status, error["code"], error["field"]) == (400, "INVALID_ARGUMENT", "body")


@pytest.mark.parametrize("kind", ["link", "above", "absolute", "fifo", "folder", "none", "no_root"])
async def test_a_path_leads_nowhere_else(service: RunningService, tmp_path: Path, kind: str) -> None:
    secret, below = tmp_path / "secret.png", tmp_path / "pictures"
    secret.write_bytes(png(0))
    (below / "link").symlink_to(secret)
    (below / "folder").mkdir()
    os.mkfifo(below / "fifo")
    path = {"above": "../secret.png", "absolute": str(secret), "no_root": "link"}.get(kind, kind)
    batch = make_batch(1)
    batch["edits"][0]["source"] = {"path": path}
    headers = {**JSON, "x-team": "red" if kind == "no_root" else ""}
    status, answer = await service.post(batch, "/v1/rewards", headers)
    assert (status, answer["error"]["field"]) == (400, "edits[0].source.path")


async def test_nobody_s_pictures_go_while_another_team_holds_more(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("editjudge_services.gateway.rewards._PICTURES_BYTES", 40_000)
    await service.post(make_batch(1), "/v1/rewards", {**JSON, "x-team": "small"})
    await service.post(make_batch(*range(2, 40)), "/v1/rewards", {**JSON, "x-team": "large"})
    held = {"source": {"digest": content_digest(png(0))}, "instruction": "x", "edited": {"digest": ""}}
    for team, seed, expected in (("small", 1, 200), ("large", 39, 200), ("large", 2, 400)):
        batch = {"edits": [{**held, "edited": {"digest": content_digest(png(seed))}}]}
        status, _ = await service.post(batch, "/v1/rewards", {**JSON, "x-team": team})
        assert status == expected, (team, seed)


@pytest.mark.parametrize("source", [{"path": "none.png"}, {"digest": "sha256:0"}, {"part": "none"}, {"data": "!"}])
async def test_a_batch_that_is_refused_as_a_whole_counts_as_invalid(
    service: RunningService, source: Mapping[str, str]
) -> None:
    batch = make_batch(1)
    batch["edits"][0]["source"] = source
    assert (await service.post(batch, "/v1/rewards"))[0] == 400
    label = 'method="/v1/rewards",status="INVALID_ARGUMENT",team=""'
    assert f"editjudge_requests_total{{{label}}} 1.0" in await service.metrics()


async def test_no_name_in_a_path_becomes_a_metric(service: RunningService) -> None:
    """Each would take memory for good, and have limits of its own where there is no team."""
    for name in ("one", "two"):
        assert (await service.post({}, f"/rewards/{name}/score"))[0] == 400
    metrics = await service.metrics()
    label = 'method="/rewards/{reward}/score",status="INVALID_ARGUMENT",team=""'
    assert f"editjudge_requests_total{{{label}}} 2.0" in metrics
    assert "/rewards/one" not in metrics


async def test_files_that_a_batch_names_take_room_and_are_read_once(tmp_path: Path) -> None:
    """A batch of a few bytes may name gigabytes: they count as if they had been sent."""
    for seed in (0, 1):
        (tmp_path / f"{seed}.png").write_bytes(png(seed, 320))
    reward = file(tmp_path, f'roots = {{ "" = "{tmp_path}" }}\n' + PIXELS)
    edit = {"source": {"path": "0.png"}, "instruction": "x", "edited": {"path": "1.png"}}
    batch = {"edits": [edit] * 20}
    async with serve(reward=reward, held_bytes=3_000_000) as service:
        status, answer = await service.post(batch, "/v1/rewards")
        assert (status, answer["summary"]["quality"]["unscored"]) == (200, {})
        assert service.service.requests.in_use == {}
    async with serve(reward=reward, held_bytes=1_000_000) as service:
        status, answer = await service.post(batch, "/v1/rewards")
        assert (status, answer["error"]["field"]) == (400, "body")
        assert "bytes" in answer["error"]["message"]


async def test_a_file_that_goes_before_it_is_read_is_named(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = RewardService._measure_files
    place = tmp_path / "pictures" / "gone.png"
    place.write_bytes(png(0))

    def measure_and_remove(*args: Any) -> dict[str, int]:
        sizes = measure(*args)
        place.unlink()
        return sizes

    monkeypatch.setattr(RewardService, "_measure_files", measure_and_remove)
    batch = make_batch(0, 1)
    batch["edits"][1]["source"] = {"path": "gone.png"}
    status, answer = await service.post(batch, "/v1/rewards")
    assert (status, answer["error"]["field"]) == (400, "edits[1].source.path")


async def test_unirl(service: RunningService) -> None:
    _, health = await service.get("/health")
    assert health["rewards"] == {"quality": ["reward", "core.ssim.source.whole"]}
    status, answer = await service.post(unirl(1, 0), "/score")
    assert status == 200, answer
    first, copy = (each["quality"] for each in answer["results"])
    assert next(iter(first)) == "reward"
    assert all(isinstance(number, float) for number in first.values())
    assert copy["reward"] == 0.0
    assert answer["errors"] == [{}, {}]


@pytest.mark.parametrize("rewards", [PIXELS, JUDGE])
async def test_the_documented_client_for_trainers_that_send_pickles(tmp_path: Path, rewards: str) -> None:
    """Without a judge no edit has a number, and the step ends."""
    sample = re.findall(r"```python\n(.*?)```", (ROOT / "docs/howto/rewards.md").read_text(), re.DOTALL)[-1]
    names: dict[str, Any] = {}
    exec(sample, names)  # noqa: S102 - ours
    before, after = (Image.open(io.BytesIO(png(seed))) for seed in (0, 1))
    batch = [[before], [before]], [after, before], ['{"instruction": "x"}'] * 2
    async with serve(reward=file(tmp_path, rewards)) as service:
        names["SERVICE"] = service.web + "/v1/rewards"
        asking = asyncio.to_thread(names["evaluate"], None, *batch)
        if rewards == JUDGE:
            with pytest.raises(RuntimeError, match="no reward"):
                await asking
            return
        scores, numbers, words, _ = await asking
    assert 0 < numbers[0] < 1
    assert (numbers[1], scores[1], words) == (0.0, 0.0, ["", ""])


async def test_flow_factory(tmp_path: Path) -> None:
    async with serve(reward=file(tmp_path, PIXELS + SECOND)) as service:
        status, answer = await service.post(flow_factory(1), "/compute")
        assert status == 400
        assert "/rewards/NAME/compute: quality, other" in answer["error"]["fix"]
        status, answer = await service.post(flow_factory(1, 0), "/rewards/quality/compute")
        assert status == 200
        assert answer["rewards"][1] == 0.0
        assert (await service.get("/rewards/quality/health"))[0] == 200
        status, answer = await service.post(flow_factory(1), "/rewards/beauty/compute")
        assert (status, answer["error"]["field"]) == (400, "want")


WRONG: Mapping[str, tuple[str, Any, str]] = {
    "no edits": ("/v1/rewards", {"edits": []}, "edits: "),
    "no source": ("/v1/rewards", {"edits": [{"instruction": ""}]}, "source: is missing"),
    "two forms": (
        "/v1/rewards",
        {"edits": [{"instruction": "x", "source": {"data": "", "part": "a"}}]},
        "give one of data, part, digest, path",
    ),
    "unknown reward": ("/v1/rewards", make_batch(1, want=["beauty"]), "no reward is called 'beauty'"),
    "no base64": (
        "/v1/rewards",
        {"edits": [{"instruction": "x", "source": {"data": "!"}, "edited": {"data": "!"}}]},
        "edits[0].source.data: it is no base64",
    ),
    "no json": ("/v1/rewards", b'{"edits": [', "it is no JSON"),
    "half a text": ("/v1/rewards", b'{"edits": ["', "it is no JSON"),
    "unirl without source": (
        "/score",
        {"requests": [{"history": [{"text": "x", "image_b64": encode(png(1))}]}]},
        "the source picture is missing",
    ),
    "unirl, no names": ("/score", unirl(1, required_rewards=5), "want"),
    "unirl, two lists": (
        "/score",
        {"requests": unirl(1)["requests"] + unirl(1, required_rewards=["b"])["requests"]},
        "several lists",
    ),
    "unirl without requests": ("/score", {}, "requests: there is none"),
    "unirl, nothing of a turn": ("/score", {"requests": [{"history": [{}, {}]}]}, "a turn has no"),
    "35 pictures for 70 prompts": (
        "/compute",
        flow_factory(1, 2) | {"prompt": ["x"] * 4},
        "2 entries for 4 of prompt",
    ),
    "flow without sources": (
        "/compute",
        flow_factory(1) | {"condition_images": None},
        "condition_images: there is none",
    ),
    "flow with no source of one": (
        "/compute",
        flow_factory(1) | {"condition_images": [[]]},
        "condition_images[0]: there is none",
    ),
    "flow without a picture": ("/compute", flow_factory(1) | {"image": [None]}, "edited"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_batch_is_refused_in_words(service: RunningService, name: str) -> None:
    path, body, words = WRONG[name]
    status, answer = await service.post(body, path)
    assert status == 400, answer
    assert words in answer["error"]["message"] + answer["error"]["fix"]


async def test_a_form_of_a_web_page_is_no_batch(service: RunningService) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/octet-stream"):
        status, _ = await service.post(make_batch(1), "/v1/rewards", {"content-type": kind})
        assert status == 415


BOUNDARY = {"content-type": "multipart/mixed; boundary=x"}


def parts(*heads: bytes) -> bytes:
    """A body of empty parts with these headers."""
    return b"".join(b"--x\r\n" + head + b"\r\n\r\n\r\n" for head in heads) + b"--x--\r\n"


@pytest.mark.parametrize(
    ("head", "words"),
    [(b"a: b\r\n" * 200 + b"a: b", "Too many headers"), (b"a: " + b"b" * 20_000, "than 8190"), (b": ", "Invalid")],
)
async def test_parts_that_are_none_are_refused_in_words(service: RunningService, head: bytes, words: str) -> None:
    status, answer = await service.post(parts(head), "/v1/rewards", BOUNDARY)
    assert (status, answer["error"]["field"]) == (400, "body")
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [(parts(*[b"a: b"] * 1000), BOUNDARY), (b'{"a": [' + b'"", ' * 100_000 + b'""]}', JSON)],
    ids=["parts", "texts"],
)
async def test_a_batch_of_tiny_pieces_holds_up_nobody(service: RunningService, body: bytes, headers: Any) -> None:
    """The event loop, which is this test's too, turns for others while they are read."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(turn())
    status, _ = await service.post(body, "/v1/rewards", headers)
    others.cancel()
    assert status == 400
    assert turns > 1000


async def test_a_batch_has_so_many_parts(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_bodies, "MAX_PICTURES", 9)
    for count, words in ((10, "no JSON"), (11, "more than 9 pictures")):
        status, answer = await service.post(parts(*[b"a: b"] * count), "/v1/rewards", BOUNDARY)
        assert status == 400
        assert words in answer["error"]["message"]


async def test_numbers_and_names_without_end_change_nothing(service: RunningService) -> None:
    _, usual = await service.post(make_batch(1), "/v1/rewards")
    batch = make_batch(1, want=["quality"] * 30_000, deadline_ms=10**400)  # each was mixed, for 0.2 ms
    status, answer = await service.post(batch, "/v1/rewards")
    assert status == 200
    assert answer["results"] == usual["results"]
    assert RewardRequest.model_validate(batch).want == ("quality",)


@pytest.mark.parametrize("path", ["/", "/mode/logits_non_cot"])
async def test_a_pickle_is_refused_in_words(service: RunningService, path: str) -> None:
    body = b"cos\nsystem\n(S'exit 1'\ntR."
    for headers in ({"content-type": "application/octet-stream"}, {}):
        status, answer = await service.post(body, path, headers)
        assert (status, answer["error"]["code"]) == (415, "INVALID_ARGUMENT")
        assert "pickles are not read" in answer["error"]["message"]


def read_problem(answer: Any, path: str) -> Any:
    """What a trainer gets in place of the number of its first edit."""
    if path == "/v1/rewards":
        value = answer["results"][0]["rewards"]["quality"]
        assert value["reward"] is None
        return value["unscored"]["reason"]
    if path == "/score":
        assert "quality" not in answer["results"][0]
        return answer["errors"][0]["quality"]
    assert "rewards" not in answer
    return answer["error"]


BODIES = {"/v1/rewards": make_batch, "/score": unirl, "/compute": flow_factory}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "say", ["NaN", "null", '"seven"', "Infinity", Fault(500, {"error": "broken"}), Fault(200, b"{}")]
)
async def test_a_failed_edit_is_no_number(tmp_path: Path, path: str, say: Any) -> None:
    judge = scripted_judge(reply(say) if isinstance(say, str) else say)
    async with judge.serving() as url:
        settings = priced_settings(url).model_copy(update={"patience": 0.1})
        async with serve(settings, reward=file(tmp_path, JUDGE)) as service:
            status, answer = await service.post(BODIES[path](1), path)
            assert status == 200
            assert read_problem(answer, path)
            json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize("path", BODIES)
async def test_a_broken_picture_is_no_number(service: RunningService, path: str) -> None:
    text = json.dumps(BODIES[path](1)).replace(encode(png(1)), encode(b"\x89PNG broken" * 200))
    status, answer = await service.post(text.encode(), path)
    assert status == 200, answer
    assert "edited" in read_problem(answer, path)


async def test_a_picture_cut_in_its_middle_is_shown_to_no_judge(tmp_path: Path) -> None:
    stream, judge = io.BytesIO(), scripted_judge()
    Image.effect_noise((256, 256), 50).convert("RGB").save(stream, "JPEG")
    whole = stream.getvalue()
    async with judge.serving() as url, serve(priced_settings(url), reward=file(tmp_path, JUDGE)) as service:
        await service.service.client.panel.probe_judges()
        asked, batch = len(judge.requests), make_batch(1, 2)
        batch["edits"][0]["edited"] = {"data": encode(whole[: len(whole) // 2])}
        batch["edits"][1]["edited"] = {"data": encode(whole)}
        status, answer = await service.post(batch, "/v1/rewards")
        cut, sound = (each["rewards"]["quality"] for each in answer["results"])
    assert (status, cut["reward"], cut["unscored"]["kind"]) == (200, None, "input")
    assert sound["reward"] is not None
    assert len(judge.requests) == asked + 1


@pytest.mark.parametrize("path", BODIES)
async def test_what_is_late_is_no_number(tmp_path: Path, path: str) -> None:
    judge = scripted_judge(60.0)
    async with judge.serving() as url:
        reward = file(tmp_path, "deadline = 0.2\n" + JUDGE)
        async with serve(priced_settings(url), reward=reward) as service:
            status, answer = await service.post(BODIES[path](1), path)
            assert status == 200
            assert "within the deadline" in read_problem(answer, path)


NOT_FOLLOWED = """
[rewards.quality.parts]
"core.ssim.source.whole" = {}
[rewards.quality.gates.not_followed]
dimension = "core.instruction_following"
below = 0.3
"""


@pytest.mark.parametrize(("good", "is_closed"), [(0.1, True), (0.9, False)])
async def test_what_does_not_follow_the_instruction_is_paid_nothing(
    tmp_path: Path, good: float, is_closed: bool
) -> None:
    """A part that pays an editor for doing nothing, behind a gate that a judge decides."""
    judge = scripted_judge()
    judge.probabilities = {"good": good, "poor": 1 - good}
    async with judge.serving() as url:
        async with serve(priced_settings(url), reward=file(tmp_path, NOT_FOLLOWED)) as service:
            _, answer = await service.post(make_batch(0), "/v1/rewards")
    value = answer["results"][0]["rewards"]["quality"]
    assert value["parts"]["core.ssim.source.whole"]["value"] == 1.0
    assert value["reward"] == (0.0 if is_closed else 1.0)
    assert value["parts"]["gate.not_followed"]["cap"] == (0.0 if is_closed else None)
    assert answer["summary"]["quality"]["gates"] == ({"not_followed": 1} if is_closed else {})


async def test_a_constant_is_a_number_only_where_it_is_written_down(tmp_path: Path) -> None:
    reward = file(tmp_path, "without_number = -1\n" + JUDGE)
    async with serve(reward=reward) as service:
        _, answer = await service.post(flow_factory(1), "/compute")
        assert answer == {"rewards": [-1.0]}
        metrics = await service.metrics()
        assert 'editjudge_reward_edits_total{outcome="imputed",reward="quality",team=""} 1.0' in metrics


async def test_a_listener_of_its_own_counts_for_its_team(tmp_path: Path) -> None:
    """Trainers send no token: what they say of a team or a class is not believed there."""
    async with serve(reward=file(tmp_path, PIXELS)) as service:
        async with serve_http(service.service, "127.0.0.1", 0, 1.0, "trainers") as web:
            headers = {"x-team": "red", "X-Class": "urgent"}
            for path, body in BODIES.items():
                async with service.session.post(web + path, json=body(1, 2), headers=headers, expect100=True) as got:
                    assert got.status == 200, path
                    assert await got.json()
            async with service.session.post(web + "/v1/rewards", json=make_batch()) as got:
                assert got.status == 400
            for path, status in {"/health": 200, "/metrics": 404, "/v1/score": 404, "/v1/panel": 404}.items():
                async with service.session.get(web + path) as got:
                    assert got.status == status, path
        assert teams_of(service.service) == {"trainers"}


async def test_without_room_nothing_begins(tmp_path: Path) -> None:
    reward = file(tmp_path, PIXELS)
    async with serve(reward=reward, held_bytes=1000) as service:
        status, _ = await service.post(make_batch(1), "/v1/rewards")
        assert status == 400, "it never fits"
    async with serve(reward=reward) as service:
        for path, body in BODIES.items():
            service.service.rate.charge(path, 1e6)
            async with service.session.post(service.web + path, json=body(1)) as got:
                assert (got.status, got.headers["retry-after"]) == (503, "2"), path


async def test_a_retried_batch_is_not_paid_again(tmp_path: Path) -> None:
    judge = scripted_judge()
    async with judge.serving() as url:
        settings, reward = priced_settings(url), file(tmp_path, JUDGE)
        for _ in range(2):  # the second is another process of the service
            async with serve(settings, cache=tmp_path / "cache", reward=reward) as service:
                await service.service.client.panel.probe_judges()
                _, answer = await service.post(make_batch(1, 2, 3), "/v1/rewards")
                asked, results = len(judge.requests), answer["results"]
                _, again = await service.post(make_batch(1, 2, 3), "/v1/rewards")
                assert again["results"] == results
                assert len(judge.requests) == asked


def test_pictures_are_taken_out_of_any_cut() -> None:
    """However the body is cut, its JSON is the same, and a picture is held once."""
    long_word = "QUJD" * 400
    texts = ['a \\" b', long_word, "x" * 3000, encode(b"\xff\xd8" + b"\xff" * 2000)]
    data = {"edits": [{"t": each, "p": encode(b"\x89PNG" + b"0" * 1998)} for each in texts]}
    text = json.dumps(data)
    bodies = text.encode(), text.replace("/", "\\/").encode()  # as some libraries write it
    for body, size in itertools.product(bodies, (1, 7, 1000, len(text))):
        reader = JsonReader(100, 1_000_000)
        for at in range(0, len(body), size):
            reader.feed(body[at : at + size])
        found = json.loads(reader.finish())["edits"]
        assert len(reader.pictures) == 2
        assert [each["t"] for each in found][:3] == texts[:3]
        assert {each["p"] for each in found} <= reader.pictures.keys()
        assert all(digest == content_digest(picture) for digest, picture in reader.pictures.values())
    with pytest.raises(InputError, match="too long"):
        JsonReader(100, 10**9).feed(b'"' + b"x" * 50_000_000)


@pytest.mark.timeout(60)
def test_what_is_costly_to_read_is_read_once_or_not_at_all() -> None:
    """Each quote in a text of megabytes would copy all of it: these take minutes then."""
    text = "x" * 20_000_000 + '"' * 50_000
    reader = JsonReader(100, 10**9)
    reader.feed(json.dumps([text]).encode())
    assert json.loads(reader.finish()) == [text]
    for body in (b" " * 1001, b'"' + b"x" * 1001 + b'"', b"[" * 600 + b'"' + b"x" * 600 + b'"'):
        with pytest.raises(InputError, match="too much text"):
            JsonReader(100, 1000).feed(body)
