"""The routes of rewards: our own schema, and the paths of other reward servers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from editjudge.base.strict import to_json
from editjudge.base.text import join_surrogates
from editjudge.base.threads import in_thread
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.schema import RewardRequest, make_reward_schema

from .errors import NoCapacity, describe_error
from .reward_bodies import read_body
from .reward_dialects import DIALECTS, PICKLE_PATHS, Dialect
from .rewards import RewardService
from .schemas import ErrorReply, InvalidRequest, parse_request, refuse_input

if TYPE_CHECKING:
    from .http import JsonService

_RETRY_SECONDS = "2"


class RewardRoutes:
    """The routes of rewards.

    Args:
        json: The other routes, which account for requests and hold room for them.
        config: The rewards.
    """

    def __init__(self, json: JsonService, config: RewardConfig) -> None:
        self._json = json
        self._rewards = RewardService(json.service, config)

    def routes(self) -> list[tuple[str, str, Callable[[web.Request], Awaitable[web.Response]]]]:
        """List methods, paths and handlers; below `/rewards/NAME` a path means that reward."""
        posts = [
            ("POST", f"{prefix}{dialect.path}", self._answer(dialect))
            for dialect in DIALECTS
            for prefix in ("", "/rewards/{reward}")
        ]
        return [
            *posts,
            *(("POST", path, self._refuse_pickle) for path in PICKLE_PATHS),
            ("GET", "/v1/rewards", self._list),
            ("GET", "/v1/rewards/schema.json", self._schema),
            ("GET", "/rewards/{reward}/health", self._json.health),
        ]

    def _answer(self, dialect: Dialect) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            try:
                return await self._score(request, dialect)
            except NoCapacity as error:  # nothing was judged yet
                text = to_json(ErrorReply(error=describe_error(error)), indent=None)
                return web.json_response(text=text, status=503, headers={"retry-after": _RETRY_SECONDS})

        return answer

    async def _score(self, request: web.Request, dialect: Dialect) -> web.Response:
        json, config = self._json, self._rewards.config
        reward = request.match_info.get("reward", "")
        with json.open_account(request) as account, refuse_input():
            async with json.acquire_room(request, account.caller, math.inf) as size:
                body = await read_body(request, size)
                fields = await in_thread(dialect.read, body.data, reward)
                batch = await in_thread(parse_request, RewardRequest.model_validate, fields)
                if dialect.is_single and len(batch.want or config.rewards) > 1:
                    fix = f"send to /rewards/NAME{dialect.path}: {', '.join(config.rewards)}"
                    raise InvalidRequest("path", "there are several rewards", fix)
                account.is_split = True
                reply = await self._rewards.score(
                    batch, body, account.caller, lambda: json.open_account(request, is_part=True)
                )
        answer = await in_thread(lambda: to_json(dialect.write(reply, config), indent=None))
        return web.json_response(text=join_surrogates(answer))

    async def _refuse_pickle(self, _: web.Request) -> web.Response:
        raise web.HTTPUnsupportedMediaType(reason="pickles are not read: send the schema to /v1/rewards")

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"rewards": self._rewards.config.list_rewards()})

    async def _schema(self, _: web.Request) -> web.Response:
        return web.json_response(make_reward_schema())
