"""A figure together with the words that say what it shows.

Runs in the kernel. Owns how a picture gets into a notebook. Must not know what it shows.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from html import escape

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

DPI = 150  # 1200 pixels on 8 inches: sharp on a projector
SHOWN_WIDTH = 760  # CSS pixels: a notebook's column
COLORS = 64  # a third of the bytes, no visible difference: the pictures are flat


@dataclass(frozen=True)
class Picture:
    """A figure and its words.

    A notebook gets the PNG, with the words as its alt text where the page supports that, and below it the words folded:
    JupyterLab gives pictures no alt text at all, and HTML with the picture inside is stripped from notebooks not trusted yet.
    """

    figure: Figure
    title: str
    alt: str

    @cached_property
    def png(self) -> bytes:
        canvas = FigureCanvasAgg(self.figure)
        self.figure.set_dpi(DPI)
        canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib types it only in part
        pixels = bytes(canvas.buffer_rgba())  # type: ignore[no-untyped-call]  # as above
        drawn = Image.frombuffer("RGBA", canvas.get_width_height(), pixels, "raw", "RGBA", 0, 1)
        info, buffer = PngInfo(), io.BytesIO()
        info.add_itxt("Description", self.alt)
        drawn.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(buffer, "png", optimize=True, pnginfo=info)
        return buffer.getvalue()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        picture = {"image/png": self.png, "text/plain": self.title}
        words = f"<details><summary>This picture in words</summary>{escape(self.alt)}</details>"
        display(  # type: ignore[no-untyped-call]  # IPython leaves it untyped
            picture, raw=True, metadata={"image/png": {"alt": self.alt, "width": SHOWN_WIDTH}}
        )
        display({"text/html": words, "text/plain": self.alt}, raw=True)  # type: ignore[no-untyped-call]  # as above
