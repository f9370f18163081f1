"""Canaries: a few edits whose order is known, which check whether a judge has changed.

A hosted judge can change while its name and version stay. So it rates the same few edits again,
past every stored reply, and its scores are compared with its baseline. `edits` has the edits and
asks about them, and `comparison` has the rule by which a change is a shift.
"""
