"""Specialists' calls with a ledger: none is made twice, whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..digest import content_digest
from ..errors import Abstained
from .coalesce import Coalesced
from .services import Service
from .triton import Reply

if TYPE_CHECKING:
    from ..run.ledger import Ledger, SpecialistCall


class Kept:
    """Asks the ledger first, and keeps what services say.

    Outputs are returned as they come back from the ledger, so that a run that was resumed and
    one that was not give the same numbers. Abstentions are kept too, failures never.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._running: Coalesced[Reply] = Coalesced()

    async def __call__(
        self, service: Service, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None
    ) -> Reply:
        """The outputs of a call, made now or before.

        Raises:
            Abstained: it says there is no value for this input.
            ServiceError: see `editjudge.errors`.
        """
        from ..run.ledger import SpecialistCall

        digests = {name: content_digest(data) for name, data in inputs.items()}
        call = SpecialistCall(service.name, str(service.identity), digests, parameters or {})
        if (outputs := self._ledger.outputs(call)) is not None:
            return dict(outputs)
        return dict(
            await self._running(call.key, lambda: self._made(call, service, inputs, parameters))
        )

    async def _made(
        self,
        call: SpecialistCall,
        service: Service,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None,
    ) -> Reply:
        try:
            outputs, seconds = await service.timed(inputs, parameters)
        except Abstained as abstained:
            raise self._ledger.keep_abstention(call, abstained.kind, abstained.reason) from None
        return dict(self._ledger.keep_outputs(call, outputs, seconds))
