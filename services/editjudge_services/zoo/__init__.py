"""The model zoo: the manifest of models, their weights on disk, and checks of both."""
