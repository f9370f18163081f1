"""What holds for a ledger in a file holds for one in PostgreSQL: the same tests, on the server."""

from __future__ import annotations

from ..unit.storage.test_ledger import (  # noqa: F401
    test_a_dropped_reply_can_be_made_again,
    test_a_second_reply_is_counted,
    test_an_abstention_is_kept,
    test_broken_text_of_a_server_is_kept,
    test_facts,
    test_no_team_reads_what_another_has,
    test_the_first_reply_stays,
    test_what_was_said,
    test_whatever_a_reply_depends_on_tells_calls_apart,
)
from ..unit.storage.test_shared_ledger import (  # noqa: F401
    begin,
    test_two_processes_judge_with_one_ledger,
    test_what_a_run_has_dropped_is_asked_anew,
    test_what_a_run_paid_for_costs_the_next_nothing,
)
