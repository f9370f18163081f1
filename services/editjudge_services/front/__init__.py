"""The front door of teams that share their judges: Envoy, configured and given its keys."""
