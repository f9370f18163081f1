"""The panel: the judges and specialists that a run can call, bound under `role.variant`."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..base.config import JudgeEndpoint, Settings
from ..base.contracts import Tensors
from ..base.digest import content_digest
from ..base.errors import Abstention, ConfigError, DeadlineExceeded, NoModel, Overload, ServiceError, Unreachable
from ..base.identity import FINGERPRINT, Identities, ModelIdentity, ServiceName, describe_change, describe_difference
from .calls import CallRecord, MemoryReplies, Reply, ReplyStore, SpecialistCall
from .coalesce import Coalescer
from .context import NO_CALLER, CallContext, SharedTerms
from .endpoints import (
    add_problem,
    check_consent,
    check_prices,
    find_identity,
    make_retry_policy,
    make_transport,
    replace_contents,
)
from .recent_replies import RecentReplies
from .replica import PoolPolicy, Replica, ServerLoad
from .retry import read_clock
from .specialists import SPECIALISTS, Specialist, model_name, parse_services

if TYPE_CHECKING:
    from .judge import Judge
    from .retry import RetryPolicy
    from .transport import Transport
    from .triton import TritonEndpoint

__all__ = ["SPECIALISTS", "Panel", "PoolPolicy", "Specialist", "model_name"]

E = TypeVar("E", bound=AbstractAsyncContextManager[object])


class Panel:
    """The specialists and judges of a run; use as an async context manager.

    On entry every endpoint is asked which services it has ready. An endpoint that cannot be reached
    does not stop the others: `problems` says what is missing and why. Calls to a service that
    several endpoints have are balanced between them, if it is the same model. Before entry nothing
    is known about any service, and asking for one raises RuntimeError.

    With a ledger all calls are stored in it. Without one, calls to judges are stored in memory and
    calls to specialists are not. `with_context` says who pays for calls and where else they are
    stored.

    On exit the connections are closed: calls in flight fail or are cancelled, and later ones fail.

    Args:
        settings: Endpoints, judges, timeouts and limits.
        ledger: A store of replies. It is not closed with the panel.
        policy: How calls to each endpoint are controlled; by default they wait for one that was
            lost as the settings say.

    Attributes:
        specialists: Bound specialists by `role.variant`.
        judges: Bound judges by `generalist.<name>`.
        problems: What is wrong with endpoints, by address.
        refused_urls: Addresses of judges that are sent no images, with the reason.
        context: On whose behalf its services are called.
    """

    def __init__(
        self, settings: Settings, *, ledger: ReplyStore | None = None, policy: PoolPolicy | None = None
    ) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._policy = policy or PoolPolicy(patience=settings.patience)
        self._replies = MemoryReplies() if ledger is None else ledger
        self._calls = ledger
        self._coalescer: Coalescer[Reply] = Coalescer()
        self._replaying = False
        self._is_connected = False
        # Copies made by `with_context` share these objects, so they are filled and never replaced.
        self.specialists: dict[ServiceName, Specialist] = {}
        self.judges: dict[ServiceName, Judge] = {}
        self.problems: dict[str, str] = {}
        self.context = NO_CALLER
        self._tritons: list[tuple[Replica[TritonEndpoint], tuple[ServiceName, ...]]] = []
        self._transports: dict[ServiceName, list[Replica[Transport]]] = {}
        self.refused_urls: dict[str, ConfigError] = {}
        self._other_replicas: list[Replica[Any]] = []
        self._answered_at: dict[str, float] = {}
        self._recents: dict[ServiceName, RecentReplies] = {}
        self._binding = asyncio.Lock()
        self._rebind_count = 0

    @classmethod
    def from_ledger(cls, ledger: ReplyStore, identities: Identities) -> Panel:
        """A panel that makes no calls: every reply comes from the ledger.

        Args:
            ledger: The stored calls.
            identities: Identity of every service, as `identities()` returned them when the calls
                were made.

        Returns:
            A panel whose calls raise `NoModel` where the ledger has no reply.
        """
        from .replay import replay_judge

        # Reads no file and no environment variables.
        panel = cls(Settings.model_construct(), ledger=ledger)
        panel._replaying = panel._is_connected = True
        for name, identity in identities.items():
            if name.is_judge:
                panel.judges[name] = replay_judge(name, identity, ledger)
            else:
                panel.specialists[name] = Specialist(name, identity)
        return panel

    def with_context(self, context: CallContext) -> Self:
        """The same services, called on somebody's behalf; the panel itself does not change."""
        panel = copy.copy(self)
        panel.context = context
        return panel

    async def __aenter__(self) -> Self:
        if self._replaying:
            return self
        try:
            await self._connect()
            await self.rebind()
        except BaseException:  # also when cancelled: open connections must be closed
            await self._stack.aclose()
            raise
        self._is_connected = True
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def probe_judges(self) -> None:
        """Find out now how judges score choices, which is part of their identity.

        A judge that cannot be asked is left as it is: its calls will fail with the reason.
        """

        async def ask(judge: Judge) -> None:
            with contextlib.suppress(ServiceError):  # its calls will fail with the reason
                await judge.with_context(self.context).find_choice_method()

        await asyncio.gather(*map(ask, tuple(self.judges.values())))

    async def call(
        self, service: str, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> Tensors:
        """Call a specialist on one request, within the limits of its endpoints.

        Identical calls that run side by side are made once.

        Args:
            service: `role.variant`.
            inputs: Encoded bytes by tensor name.
            parameters: Parameters of its contract.

        Returns:
            Outputs by name; see `TritonEndpoint.infer`.

        Raises:
            NoModel: no endpoint has the service.
            Abstention: the service has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        name = ServiceName.parse(service)
        specialist = self.specialists.get(name)
        if specialist is None:
            raise NoModel(self.why_not(name), service=name)
        context = self.context
        calls = context.calls or self._calls
        if calls is None:
            # Without a ledger a digest of every image would cost more than it saves.
            return await specialist.call(inputs, parameters, context.terms)
        digests = {key: content_digest(data) for key, data in inputs.items()}
        call = SpecialistCall(name, str(specialist.identity), digests, parameters or {})
        for log in context.logs:
            log.specialist_calls.add(call.key)

        async def get_or_make(terms: SharedTerms) -> Reply:
            async with calls.claim(call) as stored_reply:
                if stored_reply is not None:
                    context.add_counts(stored_replies=1)
                    return stored_reply
                context.add_counts(requests=1)
                content: Mapping[str, Any]
                try:
                    content = await specialist.call(inputs, parameters, terms)
                except Abstention as error:  # it is stored too, a failure never
                    content = {"kind": error.kind, "reason": error.reason}
                context.add_counts(answers=1)
                return await specialist.recent.put(calls, call, Reply(content))

        # Outputs are those that come back from the store: a resumed run gives the same numbers.
        return call.outputs(await self._coalescer((id(calls), call.key), get_or_make, context.terms))

    def judge(self, service: str) -> Judge:
        """The judge of this name.

        Raises:
            NoModel: no judge is bound under this name.
        """
        name = ServiceName.parse(service)
        judge = self.judges.get(name)
        if judge is None:
            raise NoModel(self.why_not(name), service=name)
        return judge.with_context(self.context)

    @property
    def service_names(self) -> frozenset[ServiceName]:
        """Every bound service, as `role.variant`."""
        self._check_entered()
        return frozenset((*self.specialists, *self.judges))

    @property
    def has_prices(self) -> bool:
        """Whether any judge has a price, so that costs are known."""
        return any(judge.endpoint.price for judge in self.judges.values())

    def why_not(self, service: ServiceName) -> str:
        """Why a service is not bound."""
        self._check_entered()
        if self._replaying:
            return "it was not available when the calls in the ledger were made"
        if service.is_judge:
            endpoint = self._settings.judges.get(service.variant)
            if endpoint is None:
                fix = "(--judge URL, or docs/howto/configuration.md)"
                return f"no judge is configured as {service.variant!r} {fix}"
            urls = [endpoint.url, *endpoint.replicas]
            return "; ".join(f"{url}: {self.problems.get(url, 'not bound')}" for url in urls)
        urls = [endpoint.url for endpoint in self._settings.endpoints.values()]
        if problems := [f"{url}: {self.problems[url]}" for url in urls if url in self.problems]:
            return "; ".join(problems)
        if not self._settings.endpoints:
            return "no endpoint is configured and no local stack runs (docs/howto/models.md)"
        own = f"load it there as {model_name(service)}: docs/howto/own.md"
        fix = "docs/howto/models.md adds it" if service in SPECIALISTS else own
        return f"not among the models ready at {', '.join(urls)} ({fix})"

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        """Identity of every bound service, for signatures."""
        specialists = self.specialists.items()
        return {
            **{name: specialist.identity.without(FINGERPRINT) for name, specialist in specialists},
            **{name: judge.identity for name, judge in self.judges.items()},
        }

    def _check_entered(self) -> None:
        if not self._is_connected:
            raise RuntimeError("the panel is not connected: use `async with Panel(…) as panel`")

    async def get_records(self, calls: Iterable[str]) -> Mapping[str, CallRecord]:
        """Records of stored calls by key; unknown keys are left out."""
        return await (self.context.calls or self._replies).get_records(calls)

    def measure_loads(self) -> dict[str, ServerLoad]:
        """The load of every endpoint now, by its address."""
        return {replica.url: replica.measure_load() for replica in self._list_replicas()}

    def _list_replicas(self) -> tuple[Replica[Any], ...]:
        """All servers in use: those of the specialists first, in the order of the settings."""
        tritons = (triton for triton, _ in self._tritons)
        transports = (each for group in self._transports.values() for each in group)
        return (*tritons, *transports, *self._other_replicas)

    async def _connect(self) -> None:
        """Make the connections, without asking any server.

        Raises:
            ConfigError: a setting cannot be used.
        """
        check_prices(self._settings)
        for endpoint in self._settings.endpoints.values():
            from .triton import TritonEndpoint

            names = parse_services(endpoint.services or SPECIALISTS, endpoint.url)
            triton = await self._connect_replica(endpoint.url, partial(TritonEndpoint, endpoint))
            self._tritons.append((triton, names))
        for name, judge in self._settings.judges.items():
            service = ServiceName.judge(name)
            self._transports[service] = await self._connect_judge(service, judge)

    async def rebind(self) -> None:
        """Ask the endpoints again: services that came are bound, and those that went are dropped.

        An endpoint that has been away for less than `patience` keeps its services. One that is the
        same model at the same endpoints stays the same object, and calls in flight are not touched.
        Where a server has got another model, replies since it was last asked are dropped, and calls
        in flight fail. Several calls of `rebind` run one after the other, and those that wait are
        one. A panel that answers from a ledger asks nobody.
        """
        if self._replaying:
            return
        count = self._rebind_count
        async with self._binding:
            if self._rebind_count > count:  # one that began since has asked them
                return
            self._rebind_count += 1
            for recent in self._recents.values():
                recent.mark()
            for server in self._list_replicas():
                server.target.connections.renew()  # so that the servers of today are asked
            problems = {url: str(error) for url, error in self.refused_urls.items()}
            specialists = await self._find_specialists(problems)
            bindings = (self._open_judge(name, problems) for name in self._transports)
            judges = await asyncio.gather(*bindings)
            replace_contents(self.specialists, specialists)
            replace_contents(self.judges, {judge.name: judge for judge in judges if judge})
            replace_contents(self.problems, problems)

    async def list_model_changes(self) -> tuple[str, ...]:
        """Ask the servers in use for their models: a line for each that has changed."""
        if self._replaying:
            return ()
        specialists = (self._list_triton_changes(*triton) for triton in self._tritons)
        timeout = self._settings.probe_timeout
        judges = (judge.list_model_changes(timeout) for judge in self.judges.values())
        changes = await asyncio.gather(*specialists, *judges)
        return tuple(line for lines in changes for line in lines)

    async def _list_triton_changes(self, triton: Replica[TritonEndpoint], names: tuple[ServiceName, ...]) -> list[str]:
        specialists = {n: self.specialists[n] for n in names if n in self.specialists}
        identities = {n: one.identity for n, one in specialists.items() if triton in one.replicas}
        if not identities or triton.measure_load().open:
            return []
        now = await self._find_ready(triton, tuple(identities), {})
        return [
            describe_change(name, triton.url, identities[name], identity)
            for name, identity in now.items()
            if identity != identities[name]
        ]

    async def _find_specialists(self, problems: dict[str, str]) -> dict[ServiceName, Specialist]:
        """The specialists that any Triton server has ready."""
        ready = (self._find_ready(*triton, problems) for triton in self._tritons)
        answers = await asyncio.gather(*ready)
        serving: dict[ServiceName, list[Replica[TritonEndpoint]]] = {}
        identities: dict[ServiceName, ModelIdentity] = {}
        for (triton, _), services in zip(self._tritons, answers, strict=True):
            for name, identity in services.items():
                first = identities.setdefault(name, identity)
                if identity == first:
                    serving.setdefault(name, []).append(triton)
                else:
                    there = serving[name][0].url
                    what = f"{name} is not used: {describe_difference(identity, first)} at {there}"
                    add_problem(problems, triton.url, what)
        by_url = {triton.url: services for (triton, _), services in zip(self._tritons, answers, strict=True)}
        for name, tritons in serving.items():
            found_models = {url: services[name] for url, services in by_url.items() if name in services}
            recent = self._recents.setdefault(name, RecentReplies(name))
            self._recents[name] = await recent.settle(found_models, [triton.url for triton in tritons])
        return {
            name: self._make_specialist(name, identities[name], serving[name])
            for name in dict.fromkeys((*SPECIALISTS, *serving))
            if name in serving
        }

    def _make_specialist(
        self, name: ServiceName, identity: ModelIdentity, tritons: list[Replica[TritonEndpoint]]
    ) -> Specialist:
        """A specialist; the bound one where nothing of it has changed."""
        old = self.specialists.get(name)
        if old is not None and old.identity == identity and old.replicas == tuple(tritons):
            return old
        from .pool import EndpointPool

        return Specialist(name, identity, EndpointPool(tritons, self._policy), self._recents[name])

    async def _open_judge(self, name: ServiceName, problems: dict[str, str]) -> Judge | None:
        """A judge with the replicas that have its model; None where none has."""
        from .judge import Judge
        from .pool import EndpointPool

        if not (transports := self._transports[name]):
            return None
        endpoint, old = self._settings.judges[name.variant], self.judges.get(name)
        judge = Judge(name, endpoint, EndpointPool(transports, self._policy), self._replies)
        try:
            await judge.open(self._settings.probe_timeout)
        except ServiceError as error:  # they are its problems
            return old if self._is_waited_for(endpoint.url, error) else None
        finally:
            for url, problem in judge.problems.items():
                add_problem(problems, url, problem)
        self._answered_at[endpoint.url] = read_clock()
        recent = self._recents.setdefault(name, judge.recent)
        self._recents[name] = judge.recent = await recent.settle(judge.found_models, [r.url for r in judge.replicas])
        return old if old is not None and old.is_same_as(judge) else judge

    def _is_waited_for(self, url: str, error: ServiceError) -> bool:
        """Whether a server that does not say what it serves is busy, or not lost for long."""
        until = self._answered_at.get(url, float("-inf")) + self._policy.patience
        is_lost = isinstance(error, Unreachable) and read_clock() < until
        return is_lost or isinstance(error, DeadlineExceeded | Overload)

    async def _connect_judge(self, name: ServiceName, endpoint: JudgeEndpoint) -> list[Replica[Transport]]:
        transports = []
        for url in (endpoint.url, *endpoint.replicas):
            replica = endpoint.model_copy(update={"url": url, "replicas": ()})
            try:
                check_consent(replica)
            except ConfigError as error:
                self.refused_urls[url] = error
                continue
            concurrency = self._settings.concurrency
            connect = partial(make_transport, replica, service=name, concurrency=concurrency)
            transports.append(await self._connect_replica(url, connect))
        return transports

    async def _connect_replica(self, url: str, connect: Callable[[RetryPolicy], E]) -> Replica[E]:
        """A server with its client. On exit first its queue is closed, then the client."""
        policy = make_retry_policy(self._settings)

        def connect_server(server: Replica[E]) -> E:
            return connect(replace(policy, note_retry=server.note_retry))

        replica = Replica(url, connect_server, self._settings.concurrency, self._policy)
        await self._stack.enter_async_context(replica.target)
        self._stack.callback(replica.close)
        return replica

    async def _find_ready(
        self, triton: Replica[TritonEndpoint], names: tuple[ServiceName, ...], problems: dict[str, str]
    ) -> Identities:
        """Those of the services that a Triton server has ready, with their identities."""
        timeout = self._settings.probe_timeout
        try:
            await triton.target.server(timeout)
            ready = await asyncio.gather(*(find_identity(triton.target, n, timeout) for n in names))
        except ServiceError as error:
            add_problem(problems, triton.url, error.detail)
            former = self.specialists.items() if self._is_waited_for(triton.url, error) else ()
            return {name: one.identity for name, one in former if triton in one.replicas}
        self._answered_at[triton.url] = read_clock()
        return {name: one for name, one in zip(names, ready, strict=True) if one is not None}
