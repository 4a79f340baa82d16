#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python that docs/formats shows for reading: docs_test.py SOURCE_DIR BIN_DIR.

The first Python block of a format's page runs in a folder with a small dataset of that format. To
add a page, add a function to CHECKS that looks at the names the block has left.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

source, binaries = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])

SAMPLES = {
    "cat/1": {"jpg": b"one", "cls": b"0", "seg.png": b"mask"},
    "cat/2": {"jpg": b"two", "cls": b"0"},
    "dog/1": {"jpg": b"three", "cls": b"1"},
}


def check_tar(names):
    assert names["samples"] == SAMPLES, names["samples"]


def check_folder(names):
    assert names["samples"] == SAMPLES, names["samples"]


def check_manifest(names):
    assert len(names["sums"]) == len(SAMPLES)


# Page, format to convert to, folder to run in (below the work folder), check.
CHECKS = [
    ("tar", "tar", "out", check_tar),
    ("folder", "folder", ".", check_folder),
    ("manifest", "tar", "out", check_manifest),
]


def shardmill(*arguments, cwd):
    subprocess.run([binaries / "shardmill", *arguments, "--quiet"], cwd=cwd, check=True, timeout=60)


for page, kind, where, check in CHECKS:
    block = re.findall(r"```python\n(.*?)```", (source / f"docs/formats/{page}.md").read_text(),
                       re.S)[0]
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder) / "raw"
        for key, fields in SAMPLES.items():
            for field, value in fields.items():
                if field != "cls":  # the directory is the class
                    (raw / key).parent.mkdir(parents=True, exist_ok=True)
                    (raw / f"{key}.{field}").write_bytes(value)
        shardmill("convert", "raw", "out", "--to", kind, cwd=folder)
        program = "import os\nos.chdir(%r)\n%s" % (str(pathlib.Path(folder) / where), block)
        names = {}
        exec(compile(program, f"{page}.md", "exec"), names)
        check(names)
        print(f"docs/formats/{page}.md: its Python reads what shardmill wrote")

# What index.md shows for image collections, as others make them.
with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    for key, fields in SAMPLES.items():
        for field, value in fields.items():
            (work / "raw" / key).parent.mkdir(parents=True, exist_ok=True)
            (work / "raw" / f"{key}.{field}").write_bytes(value)
    (work / "share").mkdir()
    subprocess.run(["tar", "--sort=name", "-cf", "../share/00000.tar", "cat", "dog"],
                   cwd=work / "raw", check=True)
    (work / "share/00000.parquet").write_bytes(b"PAR1")
    (work / "share/00000_stats.json").write_text("{}")
    shardmill("index", "share", "--output", "i.json", cwd=folder)
    seen = json.loads(subprocess.run([binaries / "shardmill", "inspect", "i.json", "--json"],
                                     cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
    assert seen["format"] == "tar" and seen["samples"] == 3, seen
    print("docs/index.md: a directory of tars with parquet and JSON beside reads as tar")
