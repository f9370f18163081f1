"""Questions and masks for data of one's own: made by judges, then looked through by people."""
