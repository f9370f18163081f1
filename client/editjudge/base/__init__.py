"""Modules that all other packages use, the services too: images, errors, settings, contracts."""
