"""python predict.py IMAGE [MODEL.onnx] - prints the five likeliest classes. Needs onnxruntime, numpy and Pillow."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def read_pixels(path: str, channels: int, side: int) -> np.ndarray:
    """The image as the network saw its like in training: upright, on white, a centred square, 0 to 255."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # 16 bits
        image = Image.fromarray(np.round(np.asarray(image) / 257).astype(np.uint8))
    if image.mode not in ("L", "RGB"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = ImageOps.fit(image.convert("L" if channels == 1 else "RGB"), (side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(side, side, channels).transpose(2, 0, 1)[None]


def main(image: str, model: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
    wanted = session.get_inputs()[0]
    pixels = read_pixels(image, wanted.shape[1], wanted.shape[2])
    if wanted.type == "tensor(float)":
        pixels = pixels.astype(np.float32) / 255
    logits = session.run(None, {wanted.name: pixels})[0][0]
    chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    for index in np.argsort(-chances)[:5]:
        sys.stdout.write(f"{chances[index]:7.2%}  {labels[index]}\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else str(Path(__file__).with_name("model.onnx")))
    except OSError as error:  # missing, unreadable, or not an image
        sys.exit(f"cannot read the image: {error}")
