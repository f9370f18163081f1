"""The ledger of calls, for packages that do not import `storage`."""

from ..storage.ledger import Ledger
from ..storage.shared_ledger import AnyLedger, open_ledger

__all__ = ["AnyLedger", "Ledger", "open_ledger"]
