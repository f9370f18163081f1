"""The ledger of calls, for packages that do not import `storage`."""

from ..storage.ledger import Ledger

__all__ = ["Ledger"]
