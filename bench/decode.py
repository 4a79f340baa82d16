# SPDX-License-Identifier: Apache-2.0
"""Prints every row of what docs/benchmarks.md says of decoding; bench/decode runs it.

decode_bench measures shardmill beside bare loops in one process, in turns. Other programs are
processes of their own, here with `side NAME FOLDER`, that have read the files and done their
imports before anything is measured; they and decode_bench take turns, processor time is counted,
one thread each, and medians are printed.
"""
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZE = 224


def read_images(folder, start=b"\xff\xd8"):
    """The JPEGs of a folder, in the order of their paths, as decode_bench has them."""
    paths = sorted(os.path.join(root, name) for root, _, names in os.walk(folder)
                   for name in names)
    files = []
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        if data.startswith(start):
            files.append(data)
    return files


def torchvision_side(files):
    import torch
    from PIL import Image
    from torchvision import transforms as t

    torch.set_num_threads(1)
    works = {
        "centre": t.Compose([t.Resize(SIZE), t.CenterCrop(SIZE), t.PILToTensor()]),
        "random": t.Compose([t.RandomResizedCrop(SIZE), t.RandomHorizontalFlip(),
                             t.PILToTensor()]),
        "float": t.Compose([t.Resize(SIZE), t.CenterCrop(SIZE), t.ToTensor(),
                            t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]),
    }

    def run(name):
        for data in files:
            works[name](Image.open(io.BytesIO(data)).convert("RGB"))
    return run


def ffcv_side(files):
    """FFCV's own decoders, compiled as its loader does, over the same JPEGs in memory."""
    import numba
    import numpy as np
    from ffcv.fields.rgb_image import (CenterCropRGBImageDecoder, RGBImageField,
                                       RandomResizedCropRGBImageDecoder)
    from ffcv.pipeline.compiler import Compiler
    from ffcv.pipeline.state import State
    import torch
    from PIL import Image

    Compiler.set_enabled(True)
    Compiler.set_num_threads(1)
    memory = np.frombuffer(b"".join(files), dtype=np.uint8)
    metadata = np.zeros(len(files), dtype=RGBImageField().metadata_type)
    starts = np.zeros(len(files) + 1, dtype=np.uint64)
    for number, data in enumerate(files):
        metadata[number]["width"], metadata[number]["height"] = Image.open(io.BytesIO(data)).size
        metadata[number]["data_ptr"] = number
        starts[number + 1] = starts[number] + len(data)

    @numba.njit
    def read(number, state):
        return state[0][state[1][number]:state[1][number + 1]]

    works = {}
    for name, decoder in (("centre", CenterCropRGBImageDecoder((SIZE, SIZE), 1)),
                          ("random", RandomResizedCropRGBImageDecoder((SIZE, SIZE)))):
        decoder.accept_globals(metadata, read)
        state = State(jit_mode=True, device=torch.device("cpu"), shape=(1,), dtype=np.uint8)
        _, (_, _) = decoder.declare_state_and_memory(state)
        works[name] = Compiler.compile(decoder.generate_code())
    most = int(metadata["width"].max()) * int(metadata["height"].max()) * 3
    storage = (np.zeros((1, SIZE, SIZE, 3), np.uint8), np.zeros((1, most), np.uint8))

    def run(name):
        for number in range(len(files)):
            works[name](np.array([number]), storage, metadata, (memory, starts))
    for name in works:
        run(name)  # compiles
    return run


def run_side(name, folder):
    run = {"torchvision": torchvision_side, "ffcv": ffcv_side}[name](read_images(folder))
    run("centre")
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.process_time()
        run(line.strip())
        print(time.process_time() - start, flush=True)


class Side:
    """A process that does the work a line on its input names, and answers with the seconds."""

    def __init__(self, command):
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        with tempfile.TemporaryFile("w+") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, text=True, env=environment)
            self.first = self.process.stdout.readline()
            if not self.first:
                log.seek(0)
                words = [line for line in log.read().splitlines() if line.strip()]
                raise RuntimeError(f"{command[0]}: {words[-1] if words else 'did not start'}")

    def run(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(label, name, ours, other, other_name, repeats, images, wanted):
    ours.run(name)
    times = [(other.run(name), ours.run(name)) for _ in range(repeats)]
    theirs = statistics.median(a for a, _ in times)
    mine = statistics.median(b for _, b in times)
    ratio = statistics.median(a / b for a, b in times)
    print(f"{label:<34} {images:5} images  {other_name:<14} {images / theirs:7.1f}/s  "
          f"shardmill {images / mine:7.1f}/s  ratio {ratio:.3f} of {wanted:.2f}", flush=True)


def compare_peers(folder, repeats, bench, ffcv):
    ours = Side([bench, folder, "serve"])
    images = int(ours.first)
    sides = [("torchvision", "Pillow+vision", sys.executable, 2.5), ("ffcv", "FFCV", ffcv, 1.5)]
    works = [("JPEG, centre crop", "centre"), ("JPEG, random crop and flip", "random"),
             ("JPEG, float32 NCHW normalised", "float")]
    for name, title, python, wanted in sides:
        try:
            other = Side([python, os.path.abspath(__file__), "side", name, folder])
        except (OSError, RuntimeError) as error:
            print(f"{title}: skipped: {error}", flush=True)
            continue
        for label, work in works:
            if name != "ffcv" or work != "float":
                compare(label, work, ours, other, title, repeats, images, wanted)
        other.close()
    ours.close()


def measure_quality(folder, bench, kind, start):
    """Prints how close the pixels are to Pillow's: full decoding, bilinear resizing of the box."""
    import numpy as np
    from PIL import Image, ImageOps

    files = read_images(folder, start)
    process = subprocess.Popen([bench, folder, "write"], stdout=subprocess.PIPE)
    bytes_of_image = SIZE * SIZE * 3
    figures = {"centre crop": [], "random crop and flip": []}

    def add(name, image, box, flip):
        got = np.frombuffer(process.stdout.read(bytes_of_image), np.uint8).astype(float)
        want = image.resize((SIZE, SIZE), Image.BILINEAR, box=box)
        want = np.asarray(ImageOps.mirror(want) if flip else want).astype(float).reshape(-1)
        error = ((got - want) ** 2).mean()
        figures[name].append(99 if error == 0 else 10 * np.log10(255 ** 2 / error))

    for data in files:
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        width, height = image.size
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        add("centre crop", image, (left, top, left + side, top + side), False)
        *box, flip = process.stdout.readline().split()
        add("random crop and flip", image, tuple(map(float, box)), flip == b"1")
    process.wait()
    for name, values in figures.items():
        print(f"quality, {kind + ', ' + name:<26} {len(values):5} images  PSNR to Pillow's: "
              f"mean {np.mean(values):.1f} dB of 35, worst {min(values):.1f} dB of 26", flush=True)


def make_webps(folder, out):
    from PIL import Image

    for number, data in enumerate(read_images(folder)):
        try:
            Image.open(io.BytesIO(data)).convert("RGB").save(
                os.path.join(out, f"{number:06}.webp"), quality=80, method=2)
        except OSError as error:
            print(f"decode: JPEG {number} is left out: {error}", file=sys.stderr)


def main():
    if sys.argv[1] == "side":
        return run_side(*sys.argv[2:])
    folder, repeats, bench, ffcv = sys.argv[1:]
    if not read_images(folder):
        sys.exit(f"{folder}: no JPEGs")
    subprocess.run([bench, folder, repeats], check=True)
    with tempfile.TemporaryDirectory() as webps:
        make_webps(folder, webps)
        subprocess.run([bench, webps, repeats], check=True)
        compare_peers(folder, int(repeats), bench, ffcv)
        measure_quality(folder, bench, "JPEG", b"\xff\xd8")
        measure_quality(webps, bench, "WebP", b"RIFF")
    return None


if __name__ == "__main__":
    main()
