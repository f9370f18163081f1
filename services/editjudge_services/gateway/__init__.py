"""The Judge service: service for callers without our client, over gRPC and JSON."""
