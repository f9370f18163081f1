"""Canaries: a few edits whose order is known, by which a judge is checked.

A judge behind a name can change while its name and version stay. So it is asked about the same few
edits again, past every stored reply, and compared with its first look: `scenes` draws the
edits, `edits` asks about them, and `comparison` has the rule by which a change is a shift.
"""
