"""The Judge service: judging for callers without our client, over gRPC and JSON."""
