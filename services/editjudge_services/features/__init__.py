"""Image features: what two pictures, or a region of both, have in common."""
