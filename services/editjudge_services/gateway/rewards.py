"""Scores batches of edits for trainers, with the limits and the cache of the Judge service."""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

from editjudge.base.digest import content_digest
from editjudge.base.errors import ConfigError
from editjudge.base.threads import in_thread
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.mix import fail_edit, reward_edit
from editjudge.rewards.reward import LATE, end_after, make_reply, score_siblings
from editjudge.rewards.schema import NoReward, PictureSource, RewardReply, RewardRequest, RewardValue
from editjudge.service import sort_by_dependency

from ..runtime.cache import BoundedCache
from .accounting import Caller, RequestAccount
from .errors import wrap_defect
from .reward_bodies import Body
from .schemas import EncodedEdit, EncodedImage, InvalidRequest, Protocol, ScoreRequest
from .service import JudgeService

_PICTURES_BYTES = 512 * 1024 * 1024
"""The memory for pictures that may be named by their digests; the oldest of the team with the most go first."""
OpenAccount = Callable[[], AbstractContextManager[RequestAccount]]


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
        self._pictures: defaultdict[str, BoundedCache[bytes]] = defaultdict(lambda: BoundedCache(_PICTURES_BYTES))
        self._lock = Lock()

    async def score(self, request: RewardRequest, body: Body, caller: Caller, open_account: OpenAccount) -> RewardReply:
        """Score a batch, when there is room for the files that it names.

        Args:
            body: Has the pictures.
            open_account: Opens the account of one edit.

        Raises:
            InputError: a picture is not there, or no reward has this name; nothing was judged.
            NoCapacity: there was no room in time.
            ConfigError: a signature is not the one that the file pins.
        """
        sizes, limit = await in_thread(self._measure_files, request, caller.team), self._service.requests
        async with limit.acquire(caller.owner, sum(sizes.values()), caller.waits_until) if sizes else nullcontext():
            return await self._score(request, body, sizes, caller.team, open_account)

    async def _score(
        self, request: RewardRequest, body: Body, sizes: Mapping[str, int], team: str, open_account: OpenAccount
    ) -> RewardReply:
        began, config = time.monotonic(), self.config
        names = request.want or tuple(config.rewards)
        try:
            ids = config.list_ids(*names)
        except ConfigError as error:
            raise InvalidRequest("want", error.message, error.fix) from error
        edits, sources = await in_thread(self._read_edits, request, body, team, sizes)
        dimensions = config.dimension_set.select(ids)
        selection = config.dimension_set, dimensions, sort_by_dependency(dimensions, config.dimension_set.by_id)
        rewards: list[Mapping[str, RewardValue]] = [fail_edit(config, names, LATE)] * len(edits)

        async def score_one(_: int, place: int) -> None:
            edit = ScoreRequest(edit=edits[place], dimensions=ids, protocol=self._protocol)

            async def read() -> ScoreRequest:
                return edit

            try:
                with open_account() as account:
                    await self._service.rate.wait(account.caller.owner)
                    judgement = await self._service.score(read, account, selection)
                rewards[place] = reward_edit(config, names, judgement)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001 - of this edit alone
                is_bad = isinstance(error, InvalidRequest)
                why = NoReward(kind="input" if is_bad else "failed", reason=str(wrap_defect(error)), retry=not is_bad)
                rewards[place] = fail_edit(config, names, why)

        seconds = min(config.deadline * 1e3, request.deadline_ms or math.inf) / 1e3
        async with self._service.reward_watch.watch(self._service.client, config), end_after(seconds):
            await score_siblings(sources, score_one, self._service.edits.largest)
        edit_ids = [each.id or str(place) for place, each in enumerate(request.edits)]
        seconds = time.monotonic() - began
        groups = [f"{source} {each.instruction}" for source, each in zip(sources, request.edits, strict=True)]
        reply = make_reply(config, names, edit_ids, rewards, groups, seconds)
        for name, summary in reply.summary.items():
            self._service.metrics.add_rewards(team, name, summary, seconds)
        return reply

    def _read_edits(
        self, request: RewardRequest, body: Body, team: str, sizes: Mapping[str, int]
    ) -> tuple[list[EncodedEdit], list[str]]:
        """Return the edits, and of each the digests of its sources."""
        images, digests = {}, {}
        files: dict[str, tuple[bytes, str]] = {}
        for field, source in request.list_pictures():
            if source.path is None:
                picture = self._find_picture(field, source, body, team)
            elif (path := source.path) in files:
                picture = files[path]
            else:
                picture = files[path] = self._read_file(f"{field}.path", path, sizes[path], team)
            images[field], digests[field] = EncodedImage.of(*picture), picture[1]
        edits, sources = [], []
        for place, each in enumerate(request.edits):
            at = f"edits[{place}]"
            fields = [f"{at}.source", *(f"{at}.references[{i}]" for i in range(len(each.references)))]
            before = [images[field] for field in fields]
            sources.append(" ".join(digests[field] for field in fields))
            after, mask = images[f"{at}.edited"], images.get(f"{at}.mask")
            edit = EncodedEdit(id=each.id, instruction=each.instruction, sources=tuple(before), edited=after, mask=mask)
            edits.append(edit)
        return edits, sources

    def _find_picture(self, field: str, source: PictureSource, body: Body, team: str) -> tuple[bytes, str]:
        """Return the bytes and the digest of a picture that was sent."""
        if source.digest is not None:
            with self._lock:
                picture = self._pictures[team].get(source.digest) if team in self._pictures else None
            if picture is None:
                raise InvalidRequest(f"{field}.digest", "it is not held here", "send its bytes")
            return picture, source.digest
        digest, data = source.read(field, body.pictures)
        with self._lock:
            self._pictures[team].put(digest, data, len(data))
            while sum(each.size for each in self._pictures.values()) > _PICTURES_BYTES:
                max(self._pictures.values(), key=lambda each: each.size).drop_oldest()
        return data, digest

    def _measure_files(self, request: RewardRequest, team: str) -> dict[str, int]:
        """Return the bytes of each file that is named, before there is room to read it."""
        sizes: dict[str, int] = {}
        for field, source in request.list_pictures():
            if source.path is not None and source.path not in sizes:
                with self.config.open_file(f"{field}.path", source.path, team) as file:
                    sizes[source.path] = os.fstat(file.fileno()).st_size
        return sizes

    def _read_file(self, field: str, path: str, size: int, team: str) -> tuple[bytes, str]:
        """Return the bytes of a file, up to the size for which there is room, and their digest."""
        with self.config.open_file(field, path, team) as file:
            data = file.read(size)
        return data, content_digest(data)
