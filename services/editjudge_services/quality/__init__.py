"""No-reference image quality."""
