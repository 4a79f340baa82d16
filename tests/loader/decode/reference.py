#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pixels as Pillow sees them, to compare with.

reference.py make FOLDER          makes images of many kinds; prints their paths
reference.py full < PATHS         prints PATH, width, height, SHA-256 of 8-bit RGB after orientation
reference.py cover W H < PATHS    writes W x H RGB pixels of each: centre box, bilinear
"""
import hashlib
import os
import sys
import warnings

import numpy as np
from PIL import Image, ImageOps

warnings.simplefilter("ignore")
Image.MAX_IMAGE_PIXELS = None


def rgb_of(path):
    """8-bit RGB: alpha dropped, 16 bits scaled with rounding, inks multiplied. None: no reference."""
    image = Image.open(path)
    deep = image.format == "PNG" and b"IHDR" in (head := open(path, "rb").read(32)) and head[24] == 16
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        grey = (np.asarray(image).astype(np.int64) * 255 + 32767) // 65535
        return np.repeat(grey[:, :, None].astype(np.uint8), 3, 2)
    if deep:
        return None  # Pillow cuts the low byte off
    if image.mode == "CMYK":
        inks = 255 - np.asarray(image).astype(np.int64)
        return ((inks[:, :, :3] * inks[:, :, 3:] * 2 + 255) // 510).astype(np.uint8)
    return np.ascontiguousarray(np.asarray(image.convert("RGBA"))[:, :, :3])


def texture(width, height, seed):
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    channels = [128 + 60 * np.sin(x * 0.021 + seed + c) + 40 * np.cos(y * 0.037 * (c + 1))
                + 15 * np.sin((x + 2 * y) * 0.19) + generator.normal(0, 6, (height, width))
                for c in range(3)]
    return Image.fromarray(np.clip(np.dstack(channels), 0, 255).astype(np.uint8))


def make(folder):
    made = []

    def save(name, image, **options):
        path = os.path.join(folder, name)
        image.save(path, **options)
        made.append(path)

    photo = texture(500, 375, 1)
    for subsampling in (0, 1, 2):
        for progressive in (False, True):
            save(f"s{subsampling}-{int(progressive)}.jpg", photo, quality=88, progressive=progressive,
                 subsampling=subsampling)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for suffix in ("jpg", "png", "webp"):
            save(f"turned{orientation}.{suffix}", texture(300, 211, orientation), exif=exif)
    for size in ((1, 1), (7, 3), (101, 67), (2000, 1500), (333, 500), (3000, 40)):
        save(f"{size[0]}x{size[1]}.jpg", texture(*size, 2), quality=80)
    save("grey.jpg", photo.convert("L"))
    save("cmyk.jpg", photo.convert("CMYK"))
    alpha = photo.copy()
    alpha.putalpha(texture(500, 375, 3).convert("L"))
    save("rgba.png", alpha)
    save("la.png", alpha.convert("LA"))
    save("grey.png", photo.convert("L"))
    save("bits.png", photo.convert("1"))
    save("palette.png", photo.quantize(200))
    save("palette-small.png", photo.quantize(4), bits=2)
    save("palette-clear.png", photo.quantize(16), transparency=3)
    save("clear.png", photo, transparency=(128, 128, 128))
    deep = np.random.default_rng(4).integers(0, 65536, (67, 101)).astype(np.uint16)
    save("deep.png", Image.fromarray(deep))
    save("lossy.webp", photo, quality=80)
    save("lossless.webp", photo, lossless=True)
    save("alpha.webp", alpha, quality=80)
    save("alpha-lossless.webp", alpha, lossless=True, exact=True)
    save("moving.webp", photo, save_all=True, append_images=[texture(500, 375, 5)], lossless=True)
    return made


def cover(path, width, height):
    image = Image.fromarray(rgb_of(path))
    scale = min(image.width / width, image.height / height)
    left = max((image.width - width * scale) / 2, 0)
    top = max((image.height - height * scale) / 2, 0)
    box = (left, top, image.width - left, image.height - top)
    return image.resize((width, height), Image.BILINEAR, box=box)


def main():
    if sys.argv[1] == "make":
        print("\n".join(make(sys.argv[2])))
        return
    for path in sys.stdin.read().splitlines():
        if sys.argv[1] == "cover":
            sys.stdout.buffer.write(cover(path, int(sys.argv[2]), int(sys.argv[3])).tobytes())
            continue
        try:
            rgb = rgb_of(path)
        except Exception:  # whatever Pillow says, it has no pixels to compare with
            rgb = None
        if rgb is not None:
            digest = hashlib.sha256(rgb.tobytes()).hexdigest()
            print(path, rgb.shape[1], rgb.shape[0], digest, sep="\t")


main()
