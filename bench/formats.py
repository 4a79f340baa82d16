# SPDX-License-Identifier: Apache-2.0
"""Storage formats beside Python's own readers and writers. Started by bench/formats.

To add rows for a format, write its functions (write, read) and name them in PEERS.
"""
import argparse
import io
import json
import mmap
import os
import random
import shutil
import statistics
import subprocess
import tarfile
import time


def rate(count, repeats, run, prepare=lambda: None):
    """Returns `count` per second over the median of several runs; `prepare` is not counted."""
    seconds = []
    for _ in range(repeats):
        prepare()
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds)


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def sync(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def tar_write(path, samples, size, pool):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for n in range(samples):
            info = tarfile.TarInfo(f"{n:09}.bin")
            info.size = size
            tar.addfile(info, io.BytesIO(memoryview(pool)[n % 4096 : n % 4096 + size]))
    sync(path)


def tar_read(path, order):
    """Slices of a memory map at offsets that are known."""
    with tarfile.open(path) as tar:
        places = [(m.offset_data, m.size) for m in tar.getmembers()]
    file = open(path, "rb")
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def run():
        total = 0
        for n in order:
            offset, size = places[n]
            total += view[offset : offset + size][0]
        return total

    return run


def lmdb_write(path, samples, size, pool, batch=5000):  # as BasicSR and folder2lmdb.py commit
    import lmdb
    view = memoryview(pool)
    with lmdb.open(path, map_size=1 << 40, lock=False) as environment:
        for begin in range(0, samples, batch):
            with environment.begin(write=True) as transaction:
                for n in range(begin, min(samples, begin + batch)):
                    transaction.put(b"%09d" % n, view[n % 4096 : n % 4096 + size])


def lmdb_write_1000(path, samples, size, pool):  # as Caffe's and text recognition's tools commit
    lmdb_write(path, samples, size, pool, 1000)


def lmdb_read(path, order):
    import lmdb
    environment = lmdb.open(path, readonly=True, lock=False, readahead=False)
    transaction = environment.begin(buffers=True)
    keys = [b"%09d" % n for n in order]

    def run():
        total = 0
        for key in keys:
            total += transaction.get(key)[0]
        return total

    return run


def hdf5_write(path, samples, size, pool):
    import h5py
    import numpy
    view = numpy.frombuffer(pool, "u1")
    with h5py.File(path, "w") as file:
        values = file.create_dataset("bin", (samples,), h5py.vlen_dtype("u1"))
        for n in range(samples):
            values[n] = view[n % 4096 : n % 4096 + size]
    sync(path)


def hdf5_read(path, order):
    import h5py
    values = h5py.File(path, "r")["bin"]

    def run():
        total = 0
        for n in order:
            total += int(values[n][0])
        return total

    return run


PEERS = {
    "tar": (tar_read, "Python mmap slices", [(tar_write, "Python tarfile")]),
    "lmdb": (lmdb_read, "py-lmdb, buffers=True",
             [(lmdb_write, "py-lmdb, 5000 a commit"), (lmdb_write_1000, "py-lmdb, 1000 a commit")]),
    "hdf5": (hdf5_read, "h5py, vlen rows", [(hdf5_write, "h5py, vlen rows")]),
}


def hdf5_images(arguments):
    """Rows of images in somebody's file: 8 in a chunk, as they are and compressed."""
    import h5py
    import numpy
    count = max(64, arguments.samples // 4)
    random_values = numpy.random.default_rng(3)
    # Smooth, as images are: noise would not compress.
    images = numpy.cumsum(random_values.integers(-2, 3, (64, 224, 224, 3)), axis=2).astype("u1")
    order = list(range(count))
    random.Random(4).shuffle(order)
    rows = []
    for kind, options in (("unfiltered", {}), ("deflate", {"compression": "gzip"})):
        path = os.path.join(arguments.work, f"images-{kind}.h5")
        chunk = 8 if kind == "unfiltered" else 1
        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", (count, 224, 224, 3), "u1", chunks=(chunk, 224, 224, 3),
                                       **options)
            for n in range(0, count, 64):
                data[n : n + 64] = images[: min(64, count - n)]
        command = [arguments.bench, "--read", path, str(arguments.repeats)]
        ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        with h5py.File(path, "r") as file:
            data = file["x"]

            def run():
                total = 0
                for n in order:
                    total += int(data[n][0, 0, 0])
                return total

            run()
            peer = rate(count, arguments.repeats, run)
        rows.append((f"images, {kind}, /s", ours["warm_reads_per_s"], "h5py", peer))
        if kind == "unfiltered":
            rows.append(("the same with one copy, /s", ours["copied_reads_per_s"], "h5py", peer))
        os.remove(path)
    return rows


def measure(name, arguments):
    command = [arguments.bench, name, arguments.work, str(arguments.samples), str(arguments.bytes),
               str(arguments.repeats)]
    ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    rows = [
        ("write from memory, MB/s", ours["write_mb_per_s"], "plain write",
         ours["plain_write_mb_per_s"]),
        ("cold random reads/s", ours["cold_reads_per_s"], "without look-ahead",
         ours["cold_reads_plain_per_s"]),
        ("open 100,000 samples, ms", ours["open_100k_ms"], "", None),
        ("the same with an index, ms", ours["open_100k_indexed_ms"], "", None),
        ("members indexed/s", ours["index_members_per_s"], "", None),
    ]
    if name == "lmdb":
        rows.append(("open 1,000,000 keys, ms", ours["open_1m_ms"], "", None))
    if name in PEERS:
        read, reader, writers = PEERS[name]
        path = os.path.join(arguments.work, "peer-" + name)
        pool = random.Random(1).randbytes(arguments.bytes + 4096)
        megabytes = arguments.samples * arguments.bytes / 1e6
        for write, writer in writers:
            written = rate(megabytes, arguments.repeats,
                           lambda: write(path, arguments.samples, arguments.bytes, pool),
                           lambda: remove(path))
            rows.insert(1, ("write from memory, MB/s", ours["write_mb_per_s"], writer, written))
        order = list(range(arguments.samples))
        random.Random(2).shuffle(order)
        run = read(path, order)
        run()
        peer = rate(arguments.samples, arguments.repeats, run)
        rows.insert(0, ("warm random reads/s", ours["warm_reads_per_s"], reader, peer))
        if name == "hdf5":
            rows.insert(1, ("the same, vlen layout", ours["vlen_reads_per_s"], reader, peer))
            rows[2:2] = hdf5_images(arguments)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("work")
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--bytes", type=int, default=110_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="tar,lmdb,hdf5")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = []
    print(f"{'format':<7}{'work':<30}{'shardmill':>14}  {'beside':<24}{'':>12}  ratio")
    for name in arguments.only.split(","):
        for work, ours, beside, peer in measure(name, arguments):
            ratio = "" if peer is None else f"{ours / peer:8.2f}"
            shown = "" if peer is None else f"{peer:12,.1f}"
            print(f"{name:<7}{work:<30}{ours:>14,.2f}  {beside:<24}{shown:>12}{ratio}")
            results.append({"format": name, "work": work, "shardmill": ours, "beside": beside,
                            "peer": peer})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


main()
