"""Pixel metrics and alignment: pure functions on NumPy arrays, backed by OpenCV.

An image is `uint8` of shape (H, W, 3), RGB, 0..255. A region is `bool` of shape (H, W), True
where pixels count; None is the whole image, and so is a region that is True everywhere.
"""
