"""What the answers to a team report, whichever of them arrive."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from editjudge_services.gateway.errors import NoCapacity
from editjudge_services.gateway.http import _REPORT, _send
from editjudge_services.gateway.token_reports import Debt, TokenReport


def refuses(debt: Debt) -> bool:
    """Whether a request of the team is refused."""
    try:
        TokenReport(debt).check()
    except NoCapacity:
        return True
    return False


def report_tokens(debt: Debt, tokens: int, *, arrived: bool) -> int:
    """A request that takes so many tokens: what its answer reports."""
    report = TokenReport(debt)
    report.add(tokens)
    reported = report.take()
    report.close(has_arrived=arrived)
    return reported


def test_an_answer_that_arrives_reports_its_own() -> None:
    debt = Debt()
    assert [report_tokens(debt, 5, arrived=True) for _ in range(2)] == [5, 5]
    assert not refuses(debt)


def test_what_does_not_arrive_waits_for_what_does() -> None:
    debt = Debt()
    assert [report_tokens(debt, 5, arrived=False), report_tokens(debt, 0, arrived=False)] == [5, 5]
    assert refuses(debt)
    assert [report_tokens(debt, 1, arrived=True), report_tokens(debt, 1, arrived=True)] == [6, 1]


def test_nothing_new_begins_until_the_debt_has_arrived() -> None:
    """Or who hangs up on the refusal too would be let in meanwhile."""
    debt = Debt()
    report_tokens(debt, 5, arrived=False)
    refusal = TokenReport(debt)
    assert refusal.take() == refusal.take() == 5
    assert refuses(debt)
    assert report_tokens(debt, 0, arrived=True) == 0
    refusal.close(has_arrived=True)
    assert not refuses(debt)


@pytest.mark.parametrize("arrived", [False, True])
def test_what_is_used_after_the_end_is_a_debt(arrived: bool) -> None:
    debt = Debt()
    report = TokenReport(debt)
    report.add(1)
    report.take()
    report.add(2)
    report.close(has_arrived=arrived)
    report.add(4)
    assert report_tokens(debt, 0, arrived=True) == (6 if arrived else 7)


class Unread(web.Response):
    """A response whose caller has gone."""

    async def prepare(self, _: web.BaseRequest) -> None:
        raise ConnectionResetError


async def test_who_has_gone_before_he_reads_costs_no_error() -> None:
    debt, request = Debt(), make_mocked_request("POST", "/v1/score")
    request[_REPORT] = TokenReport(debt)
    request[_REPORT].add(5)
    response = Unread()

    async def answer(_: web.Request) -> web.Response:
        return response

    assert await _send(request, answer) is response
    assert response.headers["x-tokens-used"] == "5"
    assert debt.tokens == 5
