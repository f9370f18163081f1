"""Specialists' calls with a ledger: none is made twice, whoever asks."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.contracts import Tensors
from ..base.digest import content_digest
from ..base.errors import Abstained
from .calls import CallStore, SpecialistCall
from .coalesce import Coalesced
from .services import Service
from .together import noted


class CachedSpecialists:
    """Asks the ledger first, and keeps what services answer.

    Outputs are returned as they come back from the ledger, so that a run that was resumed and
    one that was not give the same numbers. Abstentions are kept too, failures never.
    """

    def __init__(self) -> None:
        self._running: Coalesced[Tensors] = Coalesced()

    async def __call__(
        self,
        ledger: CallStore,
        service: Service,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None,
    ) -> Tensors:
        """The outputs of a call, made now or before.

        Args:
            ledger: Where it is kept.

        Raises:
            Abstained: the service has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        digests = {name: content_digest(data) for name, data in inputs.items()}
        call = SpecialistCall(service.name, str(service.identity), digests, parameters or {})
        noted().specialists.add(call.key)
        return dict(
            await self._running(
                (id(ledger), call.key),
                lambda: self._known_or_made(ledger, call, service, inputs, parameters),
            )
        )

    async def _known_or_made(
        self,
        ledger: CallStore,
        call: SpecialistCall,
        service: Service,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None,
    ) -> Tensors:
        if (known := await ledger.outputs(call)) is not None:
            return known
        try:
            outputs, seconds = await service.timed(inputs, parameters)
        except Abstained as abstained:
            kept = await ledger.keep_abstention(call, abstained.kind, abstained.reason)
            raise kept from None
        return dict(await ledger.keep_outputs(call, outputs, seconds))
