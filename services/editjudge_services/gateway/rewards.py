"""Scores batches of edits for trainers, with the limits and the cache of the Judge service."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Annotated

import pybase64
from pydantic import Field, model_validator

from editjudge.base.digest import content_digest
from editjudge.base.errors import ConfigError
from editjudge.base.images import MAX_BYTES
from editjudge.base.threads import in_thread
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.mix import fail_edit, reward_edit
from editjudge.rewards.reward import make_reply, order_siblings
from editjudge.rewards.schema import NoReward, RewardReply, RewardValue

from ..runtime.cache import BoundedCache
from .accounting import RequestAccount
from .errors import wrap_defect
from .reward_bodies import Body
from .schemas import (
    EncodedEdit,
    EncodedImage,
    InvalidRequest,
    JsonModel,
    Name,
    Protocol,
    ScoreRequest,
    Text,
)
from .service import JudgeService

MAX_EDITS = 1024
_PICTURES_BYTES = 512 * 1024 * 1024
"""The memory for pictures that may be named by their digests."""
_MAX_REFERENCES = 15
OpenAccount = Callable[[], AbstractContextManager[RequestAccount]]


class PictureSource(JsonModel):
    """A picture, by exactly one of its fields."""

    data: str | None = None
    """The bytes of a PNG, JPEG, WebP, GIF, BMP or TIFF file, in base64."""
    part: Name | None = None
    """The name of a part of the multipart body, which is the file."""
    digest: Name | None = None
    """`sha256:` and 64 hex digits of a file that was sent before."""
    path: Annotated[str, Field(max_length=4096)] | None = None
    """A path below the folder of the team."""

    @model_validator(mode="after")
    def _is_one(self) -> PictureSource:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give one of data, part, digest, path")
        return self


class RewardEdit(JsonModel):
    """An edit to score."""

    id: Text = ""
    """An id, which the reply repeats; by default the place in the batch."""
    source: PictureSource
    """The picture before the edit."""
    instruction: Text
    """What the editor was told."""
    edited: PictureSource
    """The picture after the edit."""
    references: Annotated[tuple[PictureSource, ...], Field(max_length=_MAX_REFERENCES)] = ()
    """Further pictures that the editor was given."""
    mask: PictureSource | None = None
    """The region that the edit may change: the pixels that are not black."""


class RewardRequest(JsonModel):
    """The body of `POST /v1/rewards`."""

    edits: Annotated[tuple[RewardEdit, ...], Field(min_length=1, max_length=MAX_EDITS)]
    """The edits, in any order; those of one source are judged together."""
    want: tuple[Name, ...] = ()
    """The names of the rewards; none means all."""
    deadline_ms: Annotated[int, Field(gt=0)] | None = None
    """Milliseconds; what is not judged by then has no number. The server's limit holds too."""


class RewardService:
    """Scores batches by the rewards of a file.

    Args:
        service: The Judge service, entered.
        config: The rewards.
    """

    def __init__(self, service: JudgeService, config: RewardConfig) -> None:
        self.config = config
        self._service = service
        self._protocol = Protocol(judges=config.judges, prompts=dict(config.prompts))
        self._pictures: BoundedCache[bytes] = BoundedCache(_PICTURES_BYTES)
        self._lock = Lock()

    async def score(
        self, request: RewardRequest, body: Body, team: str, open_account: OpenAccount
    ) -> RewardReply:
        """Score a batch.

        Args:
            body: Has the pictures.
            open_account: Opens the account of one edit.

        Raises:
            InvalidRequest: a picture is not there, or no reward has this name; nothing was judged.
            ConfigError: a signature is not the one that the file pins.
        """
        began, config = time.monotonic(), self.config
        names = request.want or tuple(config.rewards)
        try:
            ids = config.list_ids(*names)
        except ConfigError as error:
            raise InvalidRequest("want", error.message, error.fix) from error
        edits, sources = await in_thread(self._read_edits, request, body, team)
        late = NoReward(kind="deadline", reason="not judged within the deadline", retry=True)
        rewards: list[Mapping[str, RewardValue]] = [fail_edit(config, names, late)] * len(edits)
        slots = asyncio.Semaphore(self._service.edits.largest)

        async def score_one(place: int) -> None:
            edit = ScoreRequest(edit=edits[place], dimensions=ids, protocol=self._protocol)

            async def read() -> ScoreRequest:
                return edit

            try:
                with open_account() as account:
                    async with slots:
                        await self._service.rate.wait(account.caller.owner)
                        judgement = await self._service.score(read, account)
                outcomes, signatures = judgement.outcomes, judgement.signatures
                rewards[place] = reward_edit(config, names, judgement.edit, outcomes, signatures)
            except InvalidRequest as error:
                why = NoReward(kind="input", reason=str(error))
                rewards[place] = fail_edit(config, names, why)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001 - of this edit alone
                reason = str(wrap_defect(error))
                why = NoReward(kind="failed", reason=reason, retry=True)
                rewards[place] = fail_edit(config, names, why)

        seconds = min(config.deadline, (request.deadline_ms or 1e9) / 1e3)
        await _run_until(seconds, [score_one(place) for place in order_siblings(sources)])
        places = range(len(edits))
        edit_ids = [each.id or str(i) for i, each in zip(places, request.edits, strict=True)]
        seconds = time.monotonic() - began
        reply = make_reply(config, names, edit_ids, rewards, sources, seconds)
        for name, summary in reply.summary.items():
            self._service.metrics.add_rewards(team, name, summary, seconds)
        return reply

    def _read_edits(
        self, request: RewardRequest, body: Body, team: str
    ) -> tuple[list[EncodedEdit], list[str]]:
        """Return the edits, and of each the digests of its sources."""

        def read(field: str, source: PictureSource) -> EncodedImage:
            digest, data = self._find_picture(field, source, body, team)
            digests.append(digest)
            return EncodedImage(data=data)

        edits, sources = [], []
        for place, each in enumerate(request.edits):
            at, digests = f"edits[{place}]", list[str]()
            pictures = [read(f"{at}.source", each.source)]
            pictures += [
                read(f"{at}.references[{i}]", one) for i, one in enumerate(each.references)
            ]
            sources.append(" ".join(digests))
            output = read(f"{at}.edited", each.edited)
            mask = read(f"{at}.mask", each.mask) if each.mask else None
            edits.append(
                EncodedEdit(
                    id=each.id,
                    instruction=each.instruction,
                    sources=tuple(pictures),
                    edited=output,
                    mask=mask,
                )
            )
        return edits, sources

    def _find_picture(
        self, field: str, source: PictureSource, body: Body, team: str
    ) -> tuple[str, bytes]:
        """Return the digest and the bytes of a picture."""
        if source.digest is not None:
            with self._lock:
                picture = self._pictures.get(f"{team} {source.digest}")
            if picture is None:
                fix = "send its bytes, and its digest in later batches"
                raise InvalidRequest(f"{field}.digest", "it is not held here", fix)
            return source.digest, picture
        if source.path is not None:
            data = self._read_file(f"{field}.path", source.path, team)
            return content_digest(data), data
        picture_sent = body.pictures.get(source.part or source.data or "")
        if picture_sent is None and source.part is not None:
            raise InvalidRequest(f"{field}.part", "no part has this name", "send it as a part")
        try:
            data = (
                picture_sent[1]
                if picture_sent
                else pybase64.b64decode(source.data or "", validate=True)
            )
        except ValueError as error:
            raise InvalidRequest(f"{field}.data", "it is no base64", "encode the file") from error
        digest = picture_sent[0] if picture_sent else content_digest(data)
        with self._lock:
            self._pictures.put(f"{team} {digest}", data, len(data))
        return digest, data

    def _read_file(self, field: str, path: str, team: str) -> bytes:
        """Read a file below the folder of a team; what was opened is checked, not its name."""
        root = self.config.roots.get(team)
        if root is None:
            raise InvalidRequest(field, "this team has no folder here", "send the bytes")
        try:
            handle = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:  # noqa: PTH123 - it has no path
                place = Path(f"/proc/self/fd/{handle}").readlink()
                is_file = stat.S_ISREG(os.fstat(handle).st_mode)
                if is_file and place.is_relative_to(root.resolve()):
                    return file.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            pass
        raise InvalidRequest(field, "no such file below the folder of the team", "send the bytes")


async def _run_until(seconds: float, works: Sequence[object]) -> None:
    """Run coroutines side by side; what has not ended in time is cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[call-overload]
    try:
        wait = asyncio.FIRST_EXCEPTION
        ended_tasks, _ = await asyncio.wait(tasks, timeout=seconds, return_when=wait)
        for task in ended_tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
