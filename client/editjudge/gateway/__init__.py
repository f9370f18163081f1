"""The client of a Judge service: edits are judged there, and checked and stored here."""
