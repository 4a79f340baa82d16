# SPDX-License-Identifier: Apache-2.0
"""The table of bench/loader, which starts it: runs loader_bench, then PyTorch's DataLoader."""
import argparse
import json
import statistics
import subprocess
import time
import warnings

# What DESIGN asks for: (row, ours, theirs, least ratio, words)
ROWS = [
    ("photographs", "loader, 2 workers", "2 x hand-written loop", 0.9,
     "JPEG to 224, 2 workers / 2 x a hand-written loop in one process"),
    ("photographs", "loader, 0 workers", "hand-written loop", 0.99,
     "JPEG to 224, num_workers = 0 / the same loop"),
    ("photographs", "loader, 16 workers", "loader, 2 workers", 0.95,
     "JPEG to 224, 16 workers / 2 workers"),
    ("decoded rows", "loader, 2 workers", "memcpy, 2 processes", 0.7,
     "224 x 224 x 3 rows, 2 workers / memcpy in 2 processes"),
    ("tiny samples", "loader, 2 workers", "PyTorch", 10,
     "32 x 32 x 3 samples, 2 workers / PyTorch DataLoader, 2 workers"),
    ("tokens", "loader, 2 workers", "PyTorch", 5,
     "8 x 2048 int32, 2 workers / PyTorch DataLoader, 2 workers"),
]


def torch_rate(path, batch, seconds, repeats):
    """Samples a second of a DataLoader over the same rows of the same file, mapped into memory:
    the least that a Dataset can do."""
    import h5py
    import numpy
    import torch

    with h5py.File(path) as file:
        rows = file["x"]
        array = numpy.memmap(path, rows.dtype, "r", rows.id.get_offset(), rows.shape)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(array)

        def __getitem__(self, index):
            return torch.from_numpy(array[index])

    loader = torch.utils.data.DataLoader(Rows(), batch_size=batch, shuffle=True, num_workers=2,
                                         persistent_workers=True)

    def forever():
        while True:
            yield from loader

    batches, rates = forever(), []
    for _ in range(64):
        next(batches)
    for _ in range(repeats):
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            count += len(next(batches))
        rates.append(count / (time.perf_counter() - begin))
    return rates


def main():
    warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--seconds", default=1.0, type=float)
    parser.add_argument("--repeats", default=5, type=int)
    parser.add_argument("--tiny", default=1000000, type=int)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    command = [arguments.program, arguments.work + "/photos", arguments.work]
    for name in ("seconds", "repeats", "tiny"):
        command += ["--" + name, str(getattr(arguments, name))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rates = {}
    for line in output.splitlines():
        entry = json.loads(line)
        rates[entry["row"], entry["side"]] = entry["rates"]
    rates["photographs", "2 x hand-written loop"] = [
        2 * rate for rate in rates["photographs", "hand-written loop"]]
    for row, name, batch in (("tiny samples", "tiny", 256), ("tokens", "tokens", 8)):
        rates[row, "PyTorch"] = torch_rate(f"{arguments.work}/{name}.h5", batch,
                                           arguments.seconds, arguments.repeats)

    table = []
    for row, ours, theirs, least, words in ROWS:
        turns = [a / b for a, b in zip(rates[row, ours], rates[row, theirs])]
        table.append({"what": words, "rate": statistics.median(rates[row, ours]),
                      "ratio": statistics.median(turns), "spread": [min(turns), max(turns)],
                      "least": least})
    tiny = statistics.median(rates["tiny samples", "loader, 2 workers"])
    print(f"{'samples/s':>12} {'ratio':>7} {'asked':>6}")
    for entry in table:
        print(f"{entry['rate']:12,.0f} {entry['ratio']:7.2f} {entry['least']:6} {entry['what']}"
              f" ({entry['spread'][0]:.2f} to {entry['spread'][1]:.2f})")
    print(f"tiny samples: {2e6 / tiny:.2f} us of each of 2 workers a sample (2 asked)")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"table": table, "tiny_us": 2e6 / tiny,
                       "rates": {f"{row}: {side}": r for (row, side), r in rates.items()}},
                      file, indent=1)


main()
