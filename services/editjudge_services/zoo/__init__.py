"""The zoo: which models there are, where their weights lie, and whether they are the right ones."""
