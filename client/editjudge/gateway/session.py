"""A session through a Judge service: its verdicts and signatures are those of direct calls."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial

from ..base.differences import compare_signatures
from ..base.errors import BadReply, ConfigError, ServiceError, WrongModel
from ..base.identity import ServiceName
from ..base.item import Edit
from ..base.signature import Signature, package_version
from ..base.verdict import Failure, Outcome, make_failure
from ..benchmarks.dimension import Dimension
from ..engine.judge import (
    Judgement,
    Judges,
    Signatures,
    WaitForIdentities,
    explain_unserved,
    judge,
    plan_calls,
    roles_of,
)
from ..engine.outcomes import sort_by_dependency
from ..engine.run_inputs import RunInputs
from ..panel.budget import Budget
from ..panel.calls import CallStore, Usage
from ..v1 import judge_pb2 as pb
from .connection import SERVICE
from .messages import get_error_kind, make_score_request, read_call, read_outcome, read_usage
from .panel import Gateway

FIX = "check the address, the certificate and the token, and that the service runs: editjudge doctor --gateway URL"
_MAX_REASONS = 3
_FACT = "spent through Judge services"


class GatewaySession:
    """Judges the edits of one session through a Judge service.

    Edits may be judged side by side. An answer is taken only where this client makes the same
    signatures itself. Its cost is booked and stored before it is returned.

    Args:
        panel: The service, entered.
        protocol: The protocol, judges and rounds.
        budget: Pays for edits.
        calls: Where costs and replies of judges are stored; None stores them nowhere.
    """

    def __init__(self, panel: Gateway, protocol: pb.Protocol, budget: Budget, calls: CallStore | None = None) -> None:
        self.panel = panel
        self._protocol = protocol
        self._budget = budget
        self._calls = calls
        self._total_paid = 0.0
        self._learning = asyncio.Lock()

    async def begin(
        self, dimensions: Iterable[Dimension], known_dimensions: Mapping[str, Dimension], signatures: Signatures
    ) -> None:
        """Ask which services judge there, and check that both sides sign these dimensions alike.

        Raises:
            ConfigError: the service cannot be used, lacks a judge that is named, has judges without
                a price although costs are limited, or signs otherwise than this client.
        """
        selection = tuple(dimensions)
        request = pb.GetPanelRequest(protocol=self._protocol, dimensions=[d.id for d in selection])
        try:
            report = await self.panel.learn(request)
        except ServiceError as error:
            raise ConfigError(str(error), FIX) from error
        self._check_judges(frozenset().union(*(roles_of(d, known_dimensions) for d in selection)))
        here = signatures.of(selection, self.panel.identities())
        if otherwise := _find_difference(here, report.panel.signatures):
            name, why = otherwise
            raise ConfigError(
                f"{SERVICE} at {self.panel.url} judges {name} otherwise than this client: {why}"
                f" (editjudge {package_version('editjudge')} here, {self.panel.version} there)",
                "use the same editjudge on both sides",
            )
        await self._load_paid()

    def _check_judges(self, roles: frozenset[ServiceName]) -> None:
        for name in self._protocol.judges:
            role = ServiceName.judge(name)
            if role not in self.panel.service_names:
                raise ConfigError(f"{role} cannot be used: {self.panel.why_not(role)}", FIX)
        unpriced_roles = roles & self.panel.service_names - self.panel.priced_judges
        unpriced_judge = min(filter(lambda role: role.is_judge, unpriced_roles), default=None)
        if self._budget.limit is not None and unpriced_judge:
            raise ConfigError(
                f"max_cost is set, but {SERVICE} at {self.panel.url} reports no costs of {unpriced_judge}",
                "leave max_cost out, or have a price set there",
            )

    async def judge(
        self,
        edit: Edit,
        dimensions: Iterable[Dimension],
        known_dimensions: Mapping[str, Dimension],
        signatures: Signatures,
        wait_for_identities: WaitForIdentities | None = None,
    ) -> Judgement:
        """Have one edit judged; see `engine.judge.judge`.

        What the item alone decides, for example that a picture is missing, is decided here.
        """
        if wait_for_identities is not None:
            await wait_for_identities()
        selection = tuple(dimensions)
        own = {dimension.id: dimension for dimension in selection}
        in_order = sort_by_dependency(selection, {**known_dimensions, **own})
        if not plan_calls(edit, in_order, explain_unserved(in_order, self.panel, is_local=False)):
            return await judge(edit, selection, known_dimensions, self.panel, signatures)
        try:
            judgement = await self._judge_remotely(edit, selection, signatures)
        except ServiceError as error:
            signatures_here = signatures.of(selection, self.panel.identities())
            outcomes: dict[str, Outcome] = dict.fromkeys(signatures_here, make_failure(error))
            errors = dict.fromkeys(signatures_here, error)
            by_id = {d.id: d for d in selection}
            services = self.panel.identities()
            return Judgement(edit, by_id, outcomes, signatures_here, services, errors=errors)
        if self._calls is not None:
            await self._calls.put_records(judgement.replies.values())
        return judgement

    async def _judge_remotely(self, edit: Edit, dimensions: tuple[Dimension, ...], signatures: Signatures) -> Judgement:
        """The service's judgement of an edit, if it is signed as it would be here.

        If it is not, a service there was replaced, or came or went. Then the services are asked for
        again, and the edit too, whose calls are stored there.

        Raises:
            WrongModel: the answer has signatures that this client cannot make.
            ServiceError: see `editjudge.base.errors`.
        """
        make_request = partial(make_score_request, edit, dimensions, self._protocol)
        here = signatures.of(dimensions, self.panel.identities())
        response = await self._score_in_turn(make_request)
        if _find_difference(here, _get_texts(response)):
            async with self._learning:
                await self.panel.learn(pb.GetPanelRequest())  # who judges; signatures are made here
            here = signatures.of(dimensions, self.panel.identities())
            if _find_difference(here, _get_texts(response)):
                response = await self._score_in_turn(make_request)
        if otherwise := _find_difference(here, _get_texts(response)):
            name, why = otherwise
            raise self.panel.make_error(WrongModel, f"it signs {name} otherwise than this client: {why}")
        return self._judgement(edit, dimensions, response, here)

    async def _score_in_turn(self, make_request: Callable[[], pb.ScoreRequest]) -> pb.ScoreResponse:
        """The service's answer to an edit; edits take turns until the cost of one is known."""
        budget = self._budget
        async with budget.turn(has_price=self.panel.has_prices):
            with budget.reserve(SERVICE):
                response = await self.panel.score(make_request)
                usage = response.usage
                if usage.calls:  # else all of it was known there
                    tokens = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
                    budget.count_calls(Usage(*tokens), usage.calls)
                budget.pay(usage.spent)
            await self._store_paid(usage.spent)
        return response

    def _judgement(
        self,
        edit: Edit,
        dimensions: tuple[Dimension, ...],
        response: pb.ScoreResponse,
        signatures: Mapping[str, Signature],
    ) -> Judgement:
        messages = {outcome.dimension: outcome for outcome in response.outcomes}
        try:
            outcomes = {d.id: read_outcome(messages[d.id], d) for d in dimensions}
            records = {call.key: read_call(call) for call in response.calls}
        except (KeyError, ValueError, RecursionError) as error:
            told_of = f"no outcome of {error}" if isinstance(error, KeyError) else str(error)
            raise self.panel.make_error(BadReply, told_of) from error
        kinds = {name: get_error_kind(messages[name].failure) for name in outcomes}
        return Judgement(
            edit=edit,
            dimensions={d.id: d for d in dimensions},
            outcomes=outcomes,
            signatures=signatures,
            services=self.panel.identities(),
            untrained_ids=frozenset(name for name in outcomes if messages[name].untrained),
            usage=read_usage(response.usage),
            errors={
                name: self.panel.make_error(kind, messages[name].reason)
                for name, kind in kinds.items()
                if kind is not None and isinstance(outcomes[name], Failure)
            },
            replies=records,
            versions=next((outcome.versions for outcome in response.outcomes), None),
        )

    async def _load_paid(self) -> None:
        """Add what earlier sessions have spent to the budget."""
        fact = None if self._calls is None else await self._calls.get_fact(_FACT)
        if fact is not None:
            self._total_paid, dearest = json.loads(fact)
            self._budget.add_earlier_cost(self._total_paid, dearest)

    async def _store_paid(self, cost: float) -> None:
        """Store what was spent, for later sessions."""
        if self._calls is not None and cost:
            self._total_paid += cost
            await self._calls.put_fact(_FACT, json.dumps([self._total_paid, self._budget.dearest]))


def _get_texts(response: pb.ScoreResponse) -> dict[str, str]:
    return {outcome.dimension: outcome.signature for outcome in response.outcomes}


def _find_difference(here: Mapping[str, Signature], there: Mapping[str, str]) -> tuple[str, str] | None:
    """A dimension that is signed otherwise there, and the difference; None where there is none.

    A derived dimension is named only where none of its parts is.
    """
    derived_difference = None
    for name, signature in here.items():
        if name not in there:
            return name, "it is not signed there"
        if there[name] == str(signature):
            continue
        parts = compare_signatures(str(signature), there[name])
        why = "; ".join(map(str, parts[:_MAX_REASONS]))
        if all(one.kind != "operand" for one in parts):
            return name, why
        derived_difference = derived_difference or (name, why)
    return derived_difference


@contextlib.asynccontextmanager
async def open_session(
    panel: Gateway, protocol: pb.Protocol, order: RunInputs, calls: CallStore, budget: Budget
) -> AsyncIterator[Judges]:
    """The judges of a session through a Judge service."""
    async with panel:
        judges = GatewaySession(panel, protocol, budget, calls)
        await judges.begin(order.dimensions, order.dimensions_by_id, order.signature_cache)
        yield Judges(panel, judges.judge, is_local=False)
