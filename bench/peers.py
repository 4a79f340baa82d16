# SPDX-License-Identifier: Apache-2.0
"""Measures shardmill and its peers on the same photographs, in turns, and prints ratios.

bench/peers builds the program, converts the photographs and runs this. Each side is a process of
its own (bench/peer_sides.py) that has done its imports and set-up before anything is measured; the
sides take turns (A B C A B C ...), a ratio is taken within each turn, and medians are printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORKERS = 2
BATCH = 64
FREE_CORES = 1.7  # two loops at once do less than this times one: a second core was not free


class Side:
    """A process that answers each line on stdin with one JSON line."""

    def __init__(self, python, name, photos, work):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        self.log = open(os.path.join(work, name + ".log"), "w+")
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "peer_sides.py"), name, photos, work],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=environment)
        self.read()  # says that it is ready

    def read(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.log.seek(0)
        last = [text for text in self.log.read().splitlines() if text.strip()][-1:]
        raise RuntimeError(last[0] if last else "ended without a word")

    def run(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Shardmill:
    """The program's own bench: one run of one dataset."""

    def __init__(self, program, dataset, decode):
        self.command = [program, "bench", dataset, "--workers", str(WORKERS), "--batch-size",
                        str(BATCH), "--decode", decode, "--repeats", "1", "--quiet", "--json"]

    def run(self, seconds):
        out = subprocess.run(self.command + ["--seconds", str(seconds)], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        run = json.loads(out)["runs"][0]
        return {"rate": run["samples_per_s"], "first_ms": run["first_batch_ms"],
                "cpu_ms": run["cpu_ms_per_sample"]}

    def close(self):
        pass


class Comparison:
    """Sides that do the same work in turns. The first one is ours."""

    def __init__(self, sides, seconds, repeats):
        self.results = {name: [] for name in sides}
        for turn in range(repeats):
            for name, side in sides.items():
                self.results[name].append(side.run(seconds))
            print(f"  turn {turn + 1} of {repeats}: " + ", ".join(
                f"{name} {results[-1]['rate']:,.0f}" for name, results in self.results.items()),
                file=sys.stderr)

    def median(self, name, key="rate"):
        return statistics.median(result[key] for result in self.results[name])

    def ratio(self, ours, other, key="rate", factor=1.0):
        """The median of the ratios within a turn."""
        return statistics.median(a[key] / (b[key] * factor)
                                 for a, b in zip(self.results[ours], self.results[other]))


def start(rows, sides, name, title, python, photos, work):
    """Adds a peer, or a line that says why it is not there."""
    try:
        sides[title] = Side(python, name, photos, work)
    except (RuntimeError, OSError) as error:
        rows.append((title, None, f"not measured: {error}", None, None))


def row(rows, what, ratio, target, at_least=True):
    met = ratio >= target if at_least else ratio <= target
    rows.append((what, ratio, "at least" if at_least else "at most", target, met))


def compare_jpeg(options, rows, figures):
    ours, torch, bare, bare_one, ffcv = ("shardmill", "PyTorch DataLoader", "2 bare loops",
                                         "1 bare loop", "FFCV")
    sides = {ours: Shardmill(options.program, os.path.join(options.work, "tar"), "224")}
    start(rows, sides, "torch-jpeg", torch, sys.executable, options.photos, options.work)
    start(rows, sides, "bare-2", bare, sys.executable, options.photos, options.work)
    start(rows, sides, "bare-1", bare_one, sys.executable, options.photos, options.work)
    if options.ffcv:
        start(rows, sides, "ffcv", ffcv, options.ffcv, options.photos, options.work)
    else:
        rows.append((ffcv, None, "not installed: no --ffcv PYTHON and no FFCV_PYTHON", None, None))
    measured = finish("JPEG", sides, options, figures)
    if bare in sides:
        row(rows, "JPEG: of two bare loops at once", measured.ratio(ours, bare), 0.75)
    if bare in sides and bare_one in sides:
        cores = measured.ratio(bare, bare_one)
        alone = measured.ratio(ours, bare_one, factor=2)
        if cores >= FREE_CORES:
            row(rows, "JPEG: of 2 x one bare loop alone", alone, 0.75)
        else:
            rows.append(("JPEG: of 2 x one bare loop alone", alone, "at least", 0.75,
                         f"not judged: busy machine, 2 bare loops did {cores:.2f} x one"))
        row(rows, "JPEG: CPU time, a bare loop's by ours", measured.ratio(bare_one, ours, "cpu_ms"),
            0.75)
    if torch in sides:
        row(rows, "JPEG: of PyTorch DataLoader", measured.ratio(ours, torch), 2)
    if ffcv in sides:
        row(rows, "JPEG: of FFCV", measured.ratio(ours, ffcv), 1.2)
    if torch in sides:
        row(rows, "first batch of 64: of PyTorch's time", measured.ratio(ours, torch, "first_ms"),
            0.6, at_least=False)


def compare_arrays(options, rows, figures, kind, peer):
    ours, torch = "shardmill", f"PyTorch DataLoader with {peer}"
    sides = {ours: Shardmill(options.program, os.path.join(options.work, "arrays-" + kind), "none")}
    start(rows, sides, "torch-" + kind, torch, sys.executable, options.photos, options.work)
    measured = finish(f"arrays, {kind}", sides, options, figures)
    if torch in sides:
        row(rows, f"arrays from {kind}: of {torch}", measured.ratio(ours, torch), 5)


def finish(title, sides, options, figures):
    print(f"{title}: {', '.join(sides)}", file=sys.stderr)
    try:
        measured = Comparison(sides, options.seconds, options.repeats)
    finally:
        for side in sides.values():
            side.close()
    for name in sides:
        keys = sorted(measured.results[name][0])
        figures.append({"work": title, "side": name,
                        **{key: measured.median(name, key) for key in keys}})
    return measured


def print_figures(figures):
    print(f"{'work':14} {'side':34} {'samples/s':>10} {'first batch ms':>15} {'CPU ms/sample':>14}")
    for figure in figures:
        first = f"{figure['first_ms']:.0f}" if "first_ms" in figure else "-"
        cpu = f"{figure['cpu_ms']:.3f}" if "cpu_ms" in figure else "-"
        print(f"{figure['work']:14} {figure['side']:34} {figure['rate']:10,.0f} {first:>15} {cpu:>14}")


def print_rows(rows):
    print(f"\n{'ratio of shardmill to':48} {'median':>7}  {'target':15} verdict")
    for what, ratio, relation, target, met in rows:
        if ratio is None:
            print(f"{what:48} {relation}")
        else:
            print(f"{what:48} {ratio:7.2f}  {f'{relation} {target:g}':15} "
                  f"{met if isinstance(met, str) else 'met' if met else 'MISSED'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("photos")
    parser.add_argument("work")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--ffcv", default=os.environ.get("FFCV_PYTHON"))
    parser.add_argument("--only", default="jpeg,hdf5,lmdb")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows, figures = [], []
    only = options.only.split(",")
    began = time.time()
    if "jpeg" in only:
        compare_jpeg(options, rows, figures)
    if "hdf5" in only:
        compare_arrays(options, rows, figures, "hdf5", "h5py")
    if "lmdb" in only:
        compare_arrays(options, rows, figures, "lmdb", "py-lmdb")
    print(f"{WORKERS} workers, batches of {BATCH}, 224 x 224, page cache warm, imports not counted; "
          f"medians of {options.repeats} turns of {options.seconds:g} s; {os.cpu_count()} CPUs; "
          f"{time.time() - began:.0f} s\n")
    print_figures(figures)
    print_rows(rows)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"figures": figures, "ratios": [
                {"what": what, "ratio": ratio, "relation": relation, "target": target, "met": met}
                for what, ratio, relation, target, met in rows]}, file, indent=1)


main()
