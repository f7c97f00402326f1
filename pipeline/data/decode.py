"""One image file to pixels, with Pillow and numpy alone.

Every exported predict.py carries this very text: a deployed model sees what the network saw in training.
"""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"})
# big JPEGs are decoded at a fraction of their size, never below this many times the resolution
_DRAFT_MARGIN = 2


class ImageRefused(ValueError):
    """A file that is not taken for an image; its sentence says which and why."""


def decode(path: Path, resolution: int, colour: bool) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """uint8 [1 or 3, resolution, resolution]: upright, centre-cropped to a square, resized (bilinear, antialiased)."""
    image = read_image(path, _DRAFT_MARGIN * resolution).convert("RGB" if colour else "L")
    fitted = ImageOps.fit(image, (resolution, resolution), Image.Resampling.BILINEAR)
    pixels = np.asarray(fitted, dtype=np.uint8)
    return pixels.transpose(2, 0, 1) if colour else pixels[None]


def read_image(path: Path, draft_side: int | None = None) -> Image.Image:
    """The image turned upright, as L or RGB; a transparent one lies on white."""
    if path.exists() and not path.is_file():  # opening a pipe would wait for ever
        raise ImageRefused(f"{path} is not a file, so it is no image; replace it or delete it")
    try:
        with Image.open(path) as file:
            if draft_side:
                file.draft(file.mode, (draft_side, draft_side))
            file.load()
            return _to_eight_bits(ImageOps.exif_transpose(file), path)
    except (Image.DecompressionBombError, MemoryError):
        raise ImageRefused(f"the image {path} is too large to decode safely; make it smaller") from None
    except PermissionError:
        raise ImageRefused(f"cannot read {path}: Permission denied") from None
    except FileNotFoundError:
        raise ImageRefused(f"the image {path} is gone since the folder was listed; run again") from None
    except ImageRefused:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise ImageRefused(f"the image {path} is damaged ({_first_line(error)}); replace it or delete it") from None


def _to_eight_bits(image: Image.Image, path: Path) -> Image.Image:
    if image.mode == "F":
        raise ImageRefused(f"the image {path} has floating-point pixels of unknown range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        # Pillow's own conversion clips at 255 instead of scaling
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ImageRefused(f"the image {path} has pixels outside 0 to 65535; save it with 8 or 16 bits")
        return Image.fromarray(np.round(values / 257).astype(np.uint8))
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
