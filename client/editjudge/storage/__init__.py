"""Where calls and verdicts are kept: the SQLite file of a ledger or run."""
