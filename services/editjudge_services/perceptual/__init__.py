"""Perceptual distances between pictures."""
