"""Pixels as a small PNG.

Runs in the kernel. Owns the reduction to a palette, which makes flat drawings a quarter as large. Must not know what is drawn.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

LEVELS = 16  # per channel: smooth edges keep their shades, white and black stay exact


def encoded(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG of at most 256 colours.

    Args:
        pixels: (height, width, 4) red, green, blue and an opacity that is ignored: the ground is opaque.
    """
    high = pixels[..., :3] >> 4
    bins = (high[..., 0].astype(np.uint16) << 8) | (high[..., 1].astype(np.uint16) << 4) | high[..., 2]  # (height, width)
    counts = np.bincount(bins.ravel(), minlength=LEVELS**3)
    used = np.flatnonzero(counts)
    kept = used[np.argsort(counts[used])[::-1][:256]]
    colours = np.stack([kept >> 8, (kept >> 4) & 15, kept & 15], axis=1)  # (colours, 3), 0 to 15
    index = np.zeros(LEVELS**3, np.uint8)
    index[kept] = np.arange(len(kept))
    for rare in np.setdiff1d(used, kept):
        wanted = np.array([rare >> 8, (rare >> 4) & 15, rare & 15])
        index[rare] = np.abs(colours - wanted).sum(axis=1).argmin()
    picture = Image.fromarray(index[bins])  # 8 bits a pixel
    picture.putpalette((colours * 17).astype(np.uint8).tobytes())
    target = io.BytesIO()
    picture.save(target, "PNG", compress_level=4)
    return target.getvalue()
