"""What runs beside the models."""
