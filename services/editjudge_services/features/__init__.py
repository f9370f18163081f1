"""Image features for comparing two pictures or regions of them."""
