"""The front door for teams that share judges: Envoy's configuration, certificates and tokens."""
