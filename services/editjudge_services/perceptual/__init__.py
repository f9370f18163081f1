"""Perceptual distances between two pictures."""
