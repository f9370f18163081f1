"""Canaries: a few edits whose order is known, by which a judge that drifts is told.

A judge behind a name can change while its name and version stay. So each is asked about the same
few edits again and again, past every store of replies, and compared with itself: `scenes` draws
the edits, `asking` asks about them, `comparing` has the rule by which a change is a shift, and
`watching` does it at both ends of a session.
"""
