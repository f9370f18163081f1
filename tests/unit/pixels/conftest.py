import numpy as np
import pytest
import skimage.data


@pytest.fixture(scope="session")
def photo():
    """Load a photograph that scikit-image carries, as (H, W, 3) uint8, read-only."""

    def load(name):
        image = np.array(getattr(skimage.data, name)())
        if image.ndim == 2:
            image = np.repeat(image[..., None], 3, axis=2)
        image.flags.writeable = False
        return image

    return load
