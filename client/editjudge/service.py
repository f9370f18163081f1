"""What a service of one's own needs beside the names of `editjudge` (docs/howto/python.md)."""

from .app.catalogue import DimensionEntry as DimensionEntry
from .app.dimensions import DimensionSet as DimensionSet
from .engine.judge import computes_pixels as computes_pixels
from .engine.judge import find_lazy_limit as find_lazy_limit
from .engine.outcomes import sort_by_dependency as sort_by_dependency
from .engine.score_report import ScoreReport as ScoreReport
from .panel.budget import Budget as Budget
from .panel.calls import Call as Call
from .panel.calls import CallRecord as CallRecord
from .panel.calls import MemoryReplies as MemoryReplies
from .panel.calls import Reply as Reply
from .panel.calls import SpecialistCall as SpecialistCall
from .panel.calls import Usage as Usage
from .panel.context import CallContext as CallContext
from .panel.context import CallLog as CallLog
from .panel.context import CallTerms as CallTerms
from .panel.judge import Judge as Judge
from .storage.ledger import Ledger as Ledger
from .storage.shared_ledger import AnyLedger as AnyLedger
from .storage.shared_ledger import open_database as open_database
