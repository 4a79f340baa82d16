# SPDX-License-Identifier: Apache-2.0
"""Reads and writes HDF5 shards with h5py, for hdf5_interop_test.cc.

dump FILE          prints, for each sample: key TAB field TAB dtype and shape TAB hex of the bytes
make FOLDER        writes files in shardmill's layout and in others, with their dumps beside them
"""
import pathlib
import sys

import h5py
import numpy

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?", "c8", "c16"]


def line(key, field, kind, value):
    return "\t".join([key.hex(), field, kind, value.hex()]) + "\n"


def kind_of(array):
    return array.dtype.name + str(list(array.shape)).replace(" ", "")


def dump_shard(file):
    """Follows docs/formats/hdf5.md, knowing nothing else."""
    assert int(file.attrs["shardmill_version"]) == 1
    count = len(file["__key__/offsets"]) - 1
    columns = {}
    for name, item in file.items():
        if name.endswith("__present"):
            continue
        if isinstance(item, h5py.Group):
            present = item["present"][:] if "present" in item else numpy.ones(count, "u1")
            columns[name] = (item["data"][:].tobytes(), item["offsets"][:], present)
        else:
            present = file.get(name + "__present")
            present = numpy.ones(count, "u1") if present is None else present[:]
            columns[name] = (item, None, present)
    out = ""
    data, offsets, _ = columns.pop("__key__")
    for n in range(count):
        key = data[offsets[n]:offsets[n + 1]]
        for name in sorted(columns, key=str.encode):
            values, spans, present = columns[name]
            if not present[n]:
                continue
            if spans is not None:
                out += line(key, name, "bytes", values[spans[n]:spans[n + 1]])
            elif name == "cls" or "shardmill_class" in values.attrs:
                out += line(key, name, "bytes", str(values[n]).encode())
            else:
                row = numpy.asarray(values[n])
                out += line(key, name, kind_of(row), row.tobytes())
    return out


def add_strings(file, name, values, **how):
    data = numpy.frombuffer(b"".join(values), "u1")
    file.create_dataset(name + "/data", data=data, **(how if len(data) > 1000 else {}))
    file[name + "/offsets"] = numpy.cumsum([0] + [len(v) for v in values], dtype="u8")


def make_shard(path, libver="earliest", userblock=0, **how):
    random = numpy.random.RandomState(5)
    count = 23
    keys = ["dir/schlüssel %d" % n for n in range(count)]
    values = [random.bytes(int(random.randint(0, 3000))) if n % 5 else b"" for n in range(count)]
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        file.attrs["shardmill_version"] = 1
        add_strings(file, "__key__", [k.encode() for k in keys], **how)
        add_strings(file, "seg.png", values, **how)
        # Of the empty values every second one is absent.
        file["seg.png/present"] = numpy.array([bool(values[n]) or n % 10 == 0
                                               for n in range(count)], "u1")
        file["cls"] = random.randint(-9, 9, count).astype("i8")
        file["cls__present"] = (numpy.arange(count) % 2 == 0).astype("u1")
        file["label"] = numpy.arange(count, dtype="i8")
        file["label"].attrs["shardmill_class"] = 1
        rows = dict(how, chunks=(4, 2, 3)) if "chunks" in how else how
        for dtype in DTYPES:
            values = random.randint(0, 2, (count, 2, 3)).astype(dtype)
            file.create_dataset("x" + dtype.replace("?", "b"), data=values, **rows)
        file["f4"] = random.rand(count).astype("f4")


def make_arrays(path, libver="earliest", userblock=0, **how):
    random = numpy.random.RandomState(6)
    images = random.randint(0, 256, (31, 6, 5, 3)).astype("u1")
    labels = random.randint(0, 10, (31, 1, 1, 1)).astype(">i2")
    encoded = [random.bytes(int(random.randint(0, 400))) for _ in range(31)]
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        chunks = how.pop("chunks", None)
        file.create_dataset("images", data=images, chunks=chunks, **how)
        file["train/labels"] = labels
        rows = file.create_dataset("jpg", (31,), h5py.vlen_dtype(numpy.uint8))
        for n, value in enumerate(encoded):
            rows[n] = numpy.frombuffer(value, "u1")
        sparse = file.create_dataset("sparse", (31, 3), "f4", chunks=(2, 3), fillvalue=1.5)
        sparse[4] = [1, 2, 3]
        filled = sparse[:]
    out = ""
    for n in range(31):
        key = b"%012d" % n
        out += line(key, "images", kind_of(images[n]), images[n].tobytes())
        out += line(key, "jpg", "bytes", encoded[n])
        out += line(key, "sparse", kind_of(filled[n]), filled[n].tobytes())
        out += line(key, "train/labels", kind_of(labels[n]), labels[n].astype("<i2").tobytes())
    return out


def make(folder):
    folder = pathlib.Path(folder)
    ways = {
        "contiguous": {},
        "chunked": {"chunks": (1000,)},
        "gzip": {"chunks": (1000,), "compression": "gzip", "shuffle": True, "fletcher32": True},
    }
    for name, how in ways.items():
        for libver in ("earliest", "latest"):
            for userblock in (0, 1024):
                stem = "%s-%s-%d" % (name, libver, userblock)
                path = folder / ("shard-" + stem + ".h5")
                make_shard(path, libver, userblock, **how)
                with h5py.File(path, "r") as file:
                    path.with_suffix(".txt").write_text(dump_shard(file))
                path = folder / ("arrays-" + stem + ".h5")
                rows = dict(how, chunks=(4, 6, 5, 3)) if "chunks" in how else how
                path.with_suffix(".txt").write_text(make_arrays(path, libver, userblock, **rows))
    path = folder / "arrays-tiles.h5"
    path.with_suffix(".txt").write_text(make_arrays(path, chunks=(4, 2, 2, 3)))


if __name__ == "__main__":
    if sys.argv[1] == "dump":
        with h5py.File(sys.argv[2], "r") as shard:
            sys.stdout.write(dump_shard(shard))
    else:
        make(sys.argv[2])
