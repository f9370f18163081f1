"""Referring segmentation: a phrase and an image in, a mask out."""
