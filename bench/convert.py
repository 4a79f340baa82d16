# SPDX-License-Identifier: Apache-2.0
"""Conversions beside cp and Python's writers. Started by bench/convert."""
import argparse
import io
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import tarfile
import time


def samples(folder):
    """(key, class number, extension, path) of every file below class directories, sorted."""
    for number, name in enumerate(sorted(os.listdir(folder))):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            stem, extension = os.path.splitext(file)
            yield f"{name}/{stem}", number, extension[1:], os.path.join(folder, name, file)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def sync(path):
    """All of `path` is on the disk, as shardmill's shards are."""
    for folder, _, files in os.walk(path):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())


def copy(source, out):  # as people type it: nothing is synced
    subprocess.run(["cp", "-r", source, out], check=True)


def python_tar(source, out):
    os.mkdir(out)
    with tarfile.open(os.path.join(out, "all.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, number, extension, path in samples(source):
            for name, value in ((extension, read(path)), ("cls", str(number).encode())):
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(value)
                tar.addfile(info, io.BytesIO(value))
    sync(out)


def python_lmdb(source, out):
    import lmdb
    import msgpack
    with lmdb.open(out, map_size=1 << 40, lock=False) as environment:
        transaction = environment.begin(write=True)
        for n, (key, number, extension, path) in enumerate(samples(source)):
            sample = {"__key__": key, "cls": str(number).encode(), extension: read(path)}
            transaction.put(b"%012d" % n, msgpack.packb(sample))
            if n % 1000 == 999:  # as the converters of Caffe and of text recognition commit
                transaction.commit()
                transaction = environment.begin(write=True)
        transaction.commit()


def python_hdf5(source, out):
    import h5py
    import numpy
    os.mkdir(out)
    rows = list(samples(source))
    with h5py.File(os.path.join(out, "all.h5"), "w") as file:
        images = file.create_dataset("jpg", (len(rows),), h5py.vlen_dtype("u1"))
        classes = file.create_dataset("cls", (len(rows),), "i8")
        for n, (_, number, _, path) in enumerate(rows):
            images[n] = numpy.frombuffer(read(path), "u1")
            classes[n] = number
    sync(out)


def shrink(path):
    from PIL import Image
    image = Image.open(path).convert("RGB")
    scale = 256 / min(image.size)
    if scale < 1:
        image = image.resize((round(image.width * scale), round(image.height * scale)),
                             Image.BILINEAR)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


def pillow(source, out):
    os.mkdir(out)
    rows = list(samples(source))
    with multiprocessing.Pool(2) as pool, tarfile.open(os.path.join(out, "all.tar"), "w") as tar:
        for row, value in zip(rows, pool.imap(shrink, [path for *_, path in rows], 8)):
            info = tarfile.TarInfo(row[0] + ".jpg")
            info.size = len(value)
            tar.addfile(info, io.BytesIO(value))
    sync(out)


def shardmill(program, *options):
    def run(source, out):
        subprocess.run([program, "convert", source, out, "--quiet", *options], check=True)
    return run


def compare(rows, source, work, repeats):
    """Runs all sides in turns; returns (work, seconds, beside, ratio) of each row."""
    sides = {name for _, ours, theirs, _ in rows for name in (ours, theirs)}
    seconds = {name: [] for name in sides}
    for _ in range(repeats):
        for name in SIDES:
            if name not in sides:
                continue
            out = os.path.join(work, "out")
            shutil.rmtree(out, ignore_errors=True)
            os.sync()
            start = time.perf_counter()
            SIDES[name](source, out)
            seconds[name].append(time.perf_counter() - start)
    results = []
    for work_name, ours, theirs, asked in rows:
        ratio = statistics.median(t / o for o, t in zip(seconds[ours], seconds[theirs]))
        results.append({"work": work_name, "seconds": statistics.median(seconds[ours]),
                        "beside": theirs, "beside_seconds": statistics.median(seconds[theirs]),
                        "ratio": ratio, "asked": asked})
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("source")
    parser.add_argument("work")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    many = os.path.join(arguments.work, "many")
    for name in sorted(os.listdir(arguments.source)):
        for file in os.listdir(os.path.join(arguments.source, name)):
            for n in range(arguments.copies):
                to = os.path.join(many, name)
                os.makedirs(to, exist_ok=True)
                shutil.copyfile(os.path.join(arguments.source, name, file),
                                os.path.join(to, f"{n}-{file}"))
    global SIDES
    encode = ("--to", "tar", "--image-size", "256", "--image-format", "jpeg")
    SIDES = {"cp -r": copy, "tarfile": python_tar, "py-lmdb": python_lmdb, "h5py": python_hdf5,
             **{f"to {f}": shardmill(arguments.program, "--to", f) for f in ("tar", "lmdb", "hdf5")},
             "one job": shardmill(arguments.program, *encode, "--jobs", "1"),
             "two jobs": shardmill(arguments.program, *encode, "--jobs", "2"), "Pillow": pillow}
    rows = [(f"keeping bytes, to {name}", f"to {name}", beside, asked)
            for name, peer in (("tar", "tarfile"), ("lmdb", "py-lmdb"), ("hdf5", "h5py"))
            for beside, asked in (("cp -r", 0.8), (peer, 5))]
    rows += [("256 pixels, two jobs", "two jobs", "one job", 1.9),
             ("256 pixels, two jobs", "two jobs", "Pillow", 2)]
    results = compare(rows, many, arguments.work, arguments.repeats)
    print(f"{'work':<26}{'seconds':>9}  {'beside':<10}{'seconds':>9}{'ratio':>8}{'asked':>7}")
    for row in results:
        print(f"{row['work']:<26}{row['seconds']:>9.2f}  {row['beside']:<10}"
              f"{row['beside_seconds']:>9.2f}{row['ratio']:>8.2f}{row['asked']:>7}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


main()
