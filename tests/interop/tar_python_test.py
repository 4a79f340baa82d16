#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares shardmill with Python's tarfile and WebDataset's rules on random archives:
tar_python_test.py BIN_DIR [SEED [COUNT]]."""
import hashlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile

program = pathlib.Path(sys.argv[1]).resolve() / "shardmill"
random.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
count = int(sys.argv[3]) if len(sys.argv) > 3 else 60

PARTS = ["a", "b.c", "img", "x" * 60, "y" * 99, "\u00e9", "\u65e5\u672c", "c d", "_", "__m__",
         ".hid", "A", "n0"]
EXTENSIONS = ["jpg", "JPG", "cls", "seg.png", "json", "txt", "", "tar.gz"]
SPECIAL = [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]


def random_name():
    folders = [random.choice(PARTS) for _ in range(random.choice([0, 0, 1, 2, 3]))]
    extension = random.choice(EXTENSIONS)
    base = random.choice(PARTS) + str(random.randrange(6))
    return "/".join(folders + [base + ("." + extension if extension else "")])


def make_archive(path):
    dialect = random.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    extra = {"pax_headers": {"comment": "x"}} if dialect == tarfile.PAX_FORMAT else {}
    with tarfile.open(path, "w", format=dialect, **extra) as tar:
        for _ in range(random.randrange(1, 30)):
            info = tarfile.TarInfo(random_name())
            info.mtime = random.choice([0, 1.5, 10**10])
            info.uname = random.choice(["", "u", "\u00fc"])
            data = random.randbytes(random.choice([0, 1, 511, 512, 513, 2000]))
            kind = random.random()
            if kind < 0.15:
                info.type = random.choice(SPECIAL)
                info.linkname = "q" * random.choice([3, 120])
                data = b""
            elif kind < 0.18:
                info.type = tarfile.CONTTYPE
            info.size = len(data)
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError:
                pass  # a name that USTAR cannot hold


def python_samples(path):
    """Returns (key, field, SHA-256) as WebDataset's rules give them; None for a field twice."""
    samples = []
    fields = None
    key = None
    with tarfile.open(path) as tar:
        for member in tar:
            parts = member.name.split("/")
            hidden = parts[-1].startswith(".")  # WebDataset's expression lets some of these through
            if not member.isreg() or hidden or re.match(r"__[^/]*__($|/)", member.name):
                continue
            match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", member.name, re.S)
            if not match or not match.group(2):
                continue
            if fields is None or match.group(1) != key:
                key, fields = match.group(1), {}
                samples.append((key, fields))
            field = match.group(2).lower()
            if field in fields:
                return None
            fields[field] = hashlib.sha256(tar.extractfile(member).read()).hexdigest()
    return [(k, f, s) for k, fields in samples for f, s in sorted(fields.items())]


with tempfile.TemporaryDirectory() as folder:
    compared = 0
    for number in range(count):
        archive = os.path.join(folder, "t.tar")
        make_archive(archive)
        expected = python_samples(archive)
        result = subprocess.run([program, "inspect", archive, "--list", "--hash", "--json"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if expected is None:
            assert result.returncode == 1 and "duplicate field" in result.stderr, result.stderr
            continue
        assert result.returncode == 0, (number, result.stderr)
        got = [(f["key"], f["field"], f["sha256"]) for f in json.loads(result.stdout)["fields"]]
        assert got == expected, (number, [e for e in expected if e not in got][:3],
                                 [g for g in got if g not in expected][:3])
        compared += len(got)
    assert compared > count
    print(f"{count} archives, {compared} fields: as Python reads them")
