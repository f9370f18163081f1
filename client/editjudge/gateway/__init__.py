"""The client's side of the Judge service: edits are judged there, and known here."""
