"""Writes tests/golden/images (tiny images of many kinds) and tests/golden/preprocess.tsv: CRC-32 of
the pixels that Pillow gives for them and, with EVOQ_DATA, for photographs. Needs Pillow and NumPy;
the tests need only what it wrote."""

import os
import pathlib
import zlib

import numpy as np
from PIL import Image

here = pathlib.Path(__file__).parent
data = pathlib.Path(os.environ.get("EVOQ_DATA", here.parent.parent.parent / "shared" / "data"))


def make_images():
    folder = here / "images"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:21, 0:34]
    smooth = np.stack([x * 7 % 256, y * 12 % 256, (x + y) * 4 % 256], -1).astype(np.uint8)
    rgb = Image.fromarray(smooth)
    noise = Image.fromarray(rng.integers(0, 256, (13, 17, 3), dtype=np.uint8))
    rgb.save(folder / "rgb.jpg", quality=90)
    noise.save(folder / "noise_444.jpg", quality=75, subsampling=0)
    rgb.save(folder / "half_width.jpg", quality=80, subsampling=1)
    rgb.save(folder / "progressive.jpg", progressive=True)
    rgb.convert("L").save(folder / "gray.jpg")
    rgb.convert("CMYK").save(folder / "cmyk.jpg")
    rgb.save(folder / "rgb.png")
    rgb.convert("L").save(folder / "gray.png")
    rgb.convert("1").save(folder / "bits.png")
    rgb.quantize(16).save(folder / "palette.png", bits=4)
    rgba = rgb.copy()
    rgba.putalpha(rgb.convert("L"))
    rgba.save(folder / "alpha.png")
    rgba.convert("LA").save(folder / "gray_alpha.png")


def gray(image):
    return image.convert("L")


def short_side(size):
    def apply(image):
        w, h = image.size
        short, long = min(w, h), max(w, h)
        other = int(size * long / short)
        return image.resize((size, other) if w <= h else (other, size), Image.BILINEAR)

    return apply


def crop_resize(crop, size):
    def apply(image):
        w, h = image.size
        top, left = (h - crop) // 2, (w - crop) // 2
        return image.crop((left, top, left + crop, top + crop)).resize(size, Image.BILINEAR)

    return apply


OPERATIONS = {
    "decode": lambda image: image,
    "gray": gray,
    "short_128": short_side(128),
    "short_19": short_side(19),
    "short_300": short_side(300),
    "crop_12_31x7": crop_resize(12, (7, 31)),
    "crop_224_160x160": crop_resize(224, (160, 160)),
}


def main():
    make_images()
    files = sorted((here / "images").iterdir())
    photos = sorted((data / "images" / "imagenet").glob("*.jpg"))[::25]
    with open(here / "preprocess.tsv", "w", encoding="ascii") as out:
        out.write("file\toperation\twidth\theight\tcrc32\n")
        for path in files + photos:
            for name, operation in OPERATIONS.items():
                image = Image.open(path).convert("RGB")
                if name == "crop_224_160x160" and min(image.size) < 224:
                    continue
                image = operation(image)
                out.write(
                    f"{path.name}\t{name}\t{image.width}\t{image.height}"
                    f"\t{zlib.crc32(image.tobytes()):08x}\n"
                )


if __name__ == "__main__":
    main()
