"""Every JSON that is printed or stored, as models: one field in one place."""
