"""From dimensions to verdicts."""
