# SPDX-License-Identifier: Apache-2.0
"""Runs the recipes of docs/converting.md on small data.

Arguments: the document, the directory of the program.
"""
import io
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy
from PIL import Image

RANDOM = numpy.random.default_rng(1)


def image(format="JPEG", height=30, width=40):
    pixels = numpy.kron(RANDOM.integers(0, 255, (height, width, 3)), numpy.ones((10, 10, 1)))
    out = io.BytesIO()
    Image.fromarray(pixels.astype("u1")).save(out, format)
    return out.getvalue()


def put(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def make_data():
    for name in ("ant", "bee", "cat"):
        for i in range(6):
            put(f"imagenet/train/{name}/{i}.JPEG", image())
    put("imagenet/val/cat/0.JPEG", image())
    for i in range(20):
        put(f"VOC2012/JPEGImages/{i:04}.jpg", image())
        if i % 3:
            put(f"VOC2012/SegmentationClass/{i:04}.png", image("PNG"))
        put(f"val2017/{i:012}.jpg", image())
        put(f"photos/x/{i}.jpg", image())
    coco = {"images": [{"id": i, "file_name": f"{i:012}.jpg"} for i in range(20)],
            "annotations": [{"image_id": i % 5, "bbox": [1, 2, 3, i], "category_id": i}
                            for i in range(9)]}
    put("annotations/instances_val2017.json", json.dumps(coco))
    numpy.arange(5000, dtype="u2").tofile("train.bin")
    put("documents.jsonl", "".join(
        json.dumps({"__key__": f"doc{d}", "tokens": list(range(200 + d))}) + "\n"
        for d in range(12)))
    put("labels.csv", "path,label,caption\n" + "".join(
        f"x/{i}.jpg,{'ab'[i % 2]},\"no, {i}\"\n" for i in range(20)) + "x/none.jpg,a,gone\n")


def make_stand_ins():
    """Modules and programs that are not here, as small as the recipes need them."""
    data = f"ROWS = [({image('PNG')!r}, {image()!r}, i) for i in range(5)]\n"
    put("modules/rows.py", data)
    put("modules/datasets.py", "import rows\nImage = lambda decode: None\nclass Set(list):\n"
        "    def cast_column(self, *_):\n        return self\n"
        "def load_dataset(*_, split):\n"
        "    return Set({'img': {'bytes': p}, 'label': n} for p, j, n in rows.ROWS)\n")
    put("modules/pyarrow/__init__.py", "")
    put("modules/pyarrow/parquet.py", "import rows\nclass Batch:\n    def to_pylist(self):\n"
        "        return [{'image': {'bytes': j}, 'label': n} for p, j, n in rows.ROWS]\n"
        "class ParquetFile:\n    def __init__(self, path):\n        pass\n"
        "    def iter_batches(self):\n        return [Batch()]\n")
    put("modules/tfrecord/__init__.py", "")
    put("modules/tfrecord/reader.py", "import rows\ndef tfrecord_loader(*_):\n"
        "    return ({'image': j, 'label': [n]} for p, j, n in rows.ROWS)\n")
    put("bin/python3", '#!/bin/sh\nexec /usr/bin/python3 "$@"\n')
    put("bin/srun", '#!/bin/bash\nsize=$2; shift 2\nfor rank in $(seq 0 $((size - 1))); do\n'
        'SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=$size "$@" & all+=($!)\ndone\n'
        'for one in "${all[@]}"; do wait $one || exit 1; done\n')
    for name in ("python3", "srun"):
        os.chmod("bin/" + name, 0o755)


def blocks(document):
    text = open(document, encoding="utf-8").read()
    return re.findall(r"^```(\w+)\n(.*?)^```$", text[text.index("## Recipes"):], re.M | re.S)


EXPECTED = {"sm/train": 18, "sm/val": 1, "voc": 20, "parts/train": None, "parts/val": None,
            "coco": 20, "rows": 4, "packed": 2, "csv": 20, "hf": 5, "parquet": 5, "tfrecord": 5,
            "full": 20, "slurm": 20}


def main():
    document, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data()
        make_stand_ins()
        path = f"{folder}/bin:{program}:{os.environ['PATH']}"
        environment = dict(os.environ, PATH=path, PYTHONPATH=f"{folder}:{folder}/modules")
        for language, code in blocks(document):
            if language == "python":
                put(re.match(r"# (\S+)\n", code).group(1), code)
                continue
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", code], env=environment,
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert run.returncode == 0, f"{code}\n{run.stdout}{run.stderr}"
        for name, samples in EXPECTED.items():
            run = subprocess.run([program + "/shardmill", "verify", name, "--json"],
                                 capture_output=True, text=True)
            report = json.loads(run.stdout)
            assert run.returncode == 0, (name, report)
            assert samples is None or report["samples"] == samples, (name, report)
        classes = json.load(open("sm/val/manifest.json"))["classes"]
        assert classes == ["ant", "bee", "cat"], classes
        assert len(open("bad.jsonl").readlines()) == 1
    print("all recipes work")


main()
