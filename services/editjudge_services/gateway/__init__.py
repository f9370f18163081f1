"""The Judge service: judges edits for callers of any language, over gRPC and JSON."""
