"""Scores batches of edits for trainers, with the limits and the cache of the Judge service."""

import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock

from editjudge.base.digest import content_digest
from editjudge.base.errors import ConfigError
from editjudge.base.images import MAX_BYTES
from editjudge.base.threads import in_thread
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.mix import fail_edit, reward_edit
from editjudge.rewards.reward import LATE, end_after, make_reply, score_siblings
from editjudge.rewards.schema import NoReward, PictureSource, RewardReply, RewardRequest, RewardValue
from editjudge.service import sort_by_dependency

from ..runtime.cache import BoundedCache
from .accounting import RequestAccount
from .errors import wrap_defect
from .reward_bodies import Body
from .schemas import EncodedEdit, EncodedImage, InvalidRequest, Protocol, ScoreRequest
from .service import JudgeService

_PICTURES_BYTES = 512 * 1024 * 1024
"""The memory for pictures that may be named by their digests."""
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
        self._pictures: BoundedCache[bytes] = BoundedCache(_PICTURES_BYTES)
        self._lock = Lock()

    async def score(self, request: RewardRequest, body: Body, team: str, open_account: OpenAccount) -> RewardReply:
        """Score a batch.

        Args:
            body: Has the pictures.
            open_account: Opens the account of one edit.

        Raises:
            InputError: a picture is not there, or no reward has this name; nothing was judged.
            ConfigError: a signature is not the one that the file pins.
        """
        began, config = time.monotonic(), self.config
        names = request.want or tuple(config.rewards)
        try:
            ids = config.list_ids(*names)
        except ConfigError as error:
            raise InvalidRequest("want", error.message, error.fix) from error
        edits, sources = await in_thread(self._read_edits, request, body, team)
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

    def _read_edits(self, request: RewardRequest, body: Body, team: str) -> tuple[list[EncodedEdit], list[str]]:
        """Return the edits, and of each the digests of its sources."""

        def read(field: str, source: PictureSource) -> EncodedImage:
            digest, data = self._find_picture(field, source, body, team)
            digests.append(digest)
            return EncodedImage.of(data, digest)

        edits, sources = [], []
        for place, each in enumerate(request.edits):
            at, digests = f"edits[{place}]", list[str]()
            before = [read(f"{at}.source", each.source)]
            before += [read(f"{at}.references[{i}]", one) for i, one in enumerate(each.references)]
            sources.append(" ".join(digests))
            after = read(f"{at}.edited", each.edited)
            mask = read(f"{at}.mask", each.mask) if each.mask else None
            edit = EncodedEdit(id=each.id, instruction=each.instruction, sources=tuple(before), edited=after, mask=mask)
            edits.append(edit)
        return edits, sources

    def _find_picture(self, field: str, source: PictureSource, body: Body, team: str) -> tuple[str, bytes]:
        """Return the digest and the bytes of a picture."""
        if source.digest is not None:
            with self._lock:
                picture = self._pictures.get(f"{team} {source.digest}")
            if picture is None:
                raise InvalidRequest(f"{field}.digest", "it is not held here", "send its bytes")
            return source.digest, picture
        if source.path is not None:
            data = self._read_file(f"{field}.path", source.path, team)
            return content_digest(data), data
        digest, data = source.read(field, body.pictures)
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
