"""`editjudge serve`: run the Judge service, and look after its cache."""

import asyncio
import contextlib
import time
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from typing import Any

from editjudge.base.config import LedgerPlace, Settings, parse_ledger
from editjudge.base.errors import ConfigError, MissingExtra, StoreError
from editjudge.base.terminal import print_notice, print_text
from editjudge.cli.local_stack import list_default_roles, provide_services
from editjudge.cli.options import check_judges, parse_judges, settings_from
from editjudge.cli.output import print_json, print_tables
from editjudge.report.table import Head, Row, Table
from editjudge.rewards.config import RewardConfig

from ..gateway.audit import AuditLog, find_logs
from ..gateway.calls import DAY_SECONDS, lock_folder
from ..gateway.options import ServiceOptions, split_address
from ..gateway.retention import Holdings, measure, purge, read_usage
from ..gateway.usage import COUNTS


def serve_command(**values: Any) -> None:
    """Run the Judge service until SIGTERM; requests in flight then finish."""
    own = values.keys() & {field.name for field in fields(ServiceOptions)}
    options = ServiceOptions(**{name: values.pop(name) for name in own})
    options = replace(options, cache=parse_ledger(options.cache, "cache"))
    _check(options)
    settings = settings_from(values)
    check_judges(parse_judges(values), settings)
    for name, instead in (("ledger", "--cache"), ("max_cost", "limits at its front door")):
        if getattr(settings, name) is not None:
            print_notice(f"the setting {name} is for runs and has no effect here; use {instead}")
    roles = list_default_roles(settings)
    with provide_services(settings, roles=roles, say=print_notice) as at_hand:
        asyncio.run(_serve(at_hand, options))


def purge_command(
    folder: str, team: tuple[str, ...], older_than: float | None, audit: tuple[Path, ...], *, json: bool
) -> None:
    """Delete what is kept of teams; without a team or an age, show what is kept of each."""
    place = _parse_cache(folder)
    holdings = asyncio.run(measure(place, audit))
    if unknown := [name for name in team if name not in holdings]:
        raise ConfigError(f"{folder}: nothing is kept of team {unknown[0]!r}", "look at its name")
    rows: dict[str | None, Holdings] = dict(holdings.items())
    end = ""
    if team or older_than is not None:
        end = " deleted"
        before = None if older_than is None else time.time() - older_than * DAY_SECONDS
        rows = {name: asyncio.run(purge(place, audit, name, before)) for name in team or [None]}
        if not audit:
            print_notice("audit lines are not deleted: give the file of the service with --audit")
    if json:
        print_json([{"team": name, **asdict(row)} for name, row in rows.items()])
    else:
        for name, row in rows.items():
            print_text(f"{'all teams' if name is None else name or '(no team)'}: {row}{end}")
    if unread := find_logs(audit)[1]:
        names = ", ".join(map(str, unread))
        raise StoreError(f"{names}: no audit log that can be read", "if it is one, unpack it")


def usage_command(folder: str, team: tuple[str, ...], *, csv: bool, json: bool) -> None:
    """Show the usage of each team on each day (UTC)."""
    rows = [
        (*day, *astuple(usage))
        for day, usage in asyncio.run(read_usage(_parse_cache(folder))).items()
        if not team or day[1] in team
    ]
    columns = ("day", "team", *COUNTS)
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    table = Table(list(map(Head, columns)), list(map(Row, rows)))
    if csv:
        print_text(table.to_text("csv"), nl=False)
    else:
        print_tables([table])


def _parse_cache(text: str) -> LedgerPlace:
    return parse_ledger(text, "CACHE") or Path(text)


def _check(options: ServiceOptions) -> None:
    """Check the options before the services start, which may take long.

    Raises:
        ConfigError: an option, a file or a folder cannot be used.
        MissingExtra: the packages of the service are not installed.
    """
    options.check()
    try:
        from ..gateway.service import JudgeService  # noqa: F401 - that it can be
    except ImportError as error:
        raise MissingExtra("the Judge service", "judge") from error
    AuditLog(options.audit)
    if options.reward:
        RewardConfig.load(options.reward)
    if isinstance(options.cache, Path):
        with lock_folder(options.cache):
            pass


async def _serve(settings: Settings, options: ServiceOptions) -> None:
    from ..gateway.http import serve_http
    from ..gateway.server import serve_grpc, set_up_interpreter, wait_for_signal
    from ..gateway.service import JudgeService

    async with JudgeService(settings, options) as service, contextlib.AsyncExitStack() as servers:
        try:
            web = await servers.enter_async_context(
                serve_http(service, *split_address(options.http_address), options.drain)
            )
            if service.reward_config and (own := service.reward_config.listener):
                opening = serve_http(service, *split_address(own.address), options.drain, own.team)
                web += f" (JSON), rewards of team {own.team} at {await servers.enter_async_context(opening)}"
            at = await servers.enter_async_context(serve_grpc(service, options.address, options.notice, options.drain))
        except OSError as error:
            raise ConfigError(str(error), "give other addresses") from error
        set_up_interpreter()
        print_text(f"judging at {at} (gRPC) and {web} (JSON)")
        await wait_for_signal()
        print_notice("ending: no further requests are accepted, those in flight finish")
