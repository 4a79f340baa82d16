# SPDX-License-Identifier: Apache-2.0
"""The peers that bench/peers.py compares with: peer_sides.py SIDE PHOTOS WORK.

Sets one side up, prints a line, then for each line with a number of seconds on stdin loads for that
long and prints {"rate": samples a second, "first_ms": time to the first batch} as JSON.
"""
import json
import multiprocessing
import os
import sys
import threading
import time

BATCH = 64
WORKERS = 2
SIZE = 224
EPOCHS = 32  # times the data set stands in an epoch: the gap between epochs is not what is compared


def jpeg_files(photos):
    files = []
    for folder, _, names in sorted(os.walk(photos)):
        files += [os.path.join(folder, name) for name in sorted(names)]
    return files


def timed(batches, seconds):
    """Takes batches for half a second, then for `seconds`; returns samples a second."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < min(0.5, seconds / 4):
        next(batches)
    samples, begin = 0, time.perf_counter()
    while True:
        samples += len(next(batches))
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return samples / spent


def forever(loader):
    while True:
        for images, _ in loader:
            yield images


class Torch:
    """PyTorch's DataLoader over a map-style dataset, with workers that persist."""

    def __init__(self, dataset):
        import torch
        self.torch = torch
        self.dataset = dataset
        self.batches = forever(self.loader(torch.utils.data.ConcatDataset([dataset] * EPOCHS)))
        next(self.batches)

    def loader(self, dataset):
        return self.torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=WORKERS,
                                                persistent_workers=True)

    def first_ms(self):
        loader = self.loader(self.dataset)
        begin = time.perf_counter()
        iterator = iter(loader)
        next(iterator)
        return (time.perf_counter() - begin) * 1e3

    def run(self, seconds):
        return {"rate": timed(self.batches, seconds), "first_ms": self.first_ms()}


def torch_jpeg(photos, work):
    from torchvision import datasets, transforms
    return Torch(datasets.ImageFolder(photos, transforms.Compose([
        transforms.Resize(SIZE), transforms.CenterCrop(SIZE), transforms.PILToTensor()])))


def decoded(photos):
    """All photographs as arrays, and a class number for each."""
    import numpy
    from torchvision import datasets, transforms
    folder = datasets.ImageFolder(photos, transforms.Compose([
        transforms.Resize(SIZE), transforms.CenterCrop(SIZE)]))
    for image, label in folder:
        yield numpy.asarray(image), label


class Hdf5Dataset:
    """Opened in the worker, as h5py's documentation asks for."""

    def __init__(self, path, count):
        self.path, self.count, self.file = path, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        import h5py
        import torch
        if self.file is None:
            self.file = h5py.File(self.path, "r")
            self.images, self.labels = self.file["images"], self.file["labels"]
        return torch.from_numpy(self.images[i]), int(self.labels[i])


class LmdbDataset:
    """Raw rows under decimal keys, opened in the worker without lock and read-ahead."""

    def __init__(self, path, count):
        self.path, self.count, self.transaction = path, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        import lmdb
        import numpy
        import torch
        if self.transaction is None:
            self.environment = lmdb.open(self.path, readonly=True, lock=False, readahead=False,
                                         meminit=False)
            self.transaction = self.environment.begin(buffers=True)
        value = self.transaction.get(b"%08d" % i)
        row = numpy.frombuffer(value, numpy.uint8, SIZE * SIZE * 3).reshape(SIZE, SIZE, 3)
        return torch.from_numpy(row), value[-1]


def torch_hdf5(photos, work):
    import h5py
    import numpy
    path = os.path.join(work, "peer.h5")
    images, labels = zip(*decoded(photos))
    with h5py.File(path, "w") as file:
        file["images"] = numpy.stack(images)
        file["labels"] = numpy.array(labels)
    return Torch(Hdf5Dataset(path, len(images)))


def torch_lmdb(photos, work):
    import lmdb
    path = os.path.join(work, "peer.lmdb")
    count = 0
    environment = lmdb.open(path, map_size=1 << 40)
    with environment.begin(write=True) as transaction:
        for image, label in decoded(photos):
            transaction.put(b"%08d" % count, image.tobytes() + bytes([label % 256]))
            count += 1
    environment.close()
    return Torch(LmdbDataset(path, count))


class Bare:
    """Loops of libjpeg-turbo's full decode to RGB, one a thread, over files held in memory."""

    def __init__(self, photos, loops):
        import ctypes
        self.c = ctypes
        self.library = ctypes.CDLL("libturbojpeg.so.0")
        self.library.tjInitDecompress.restype = ctypes.c_void_p
        self.library.tjGetErrorStr2.restype = ctypes.c_char_p
        self.loops = loops
        self.files = []
        for path in jpeg_files(photos):
            with open(path, "rb") as file:
                data = file.read()
            if data[:2] == b"\xff\xd8":
                self.files.append(data)

    def loop(self, first, seconds, rates, cpu_ms):
        c, library = self.c, self.library
        handle = c.c_void_p(library.tjInitDecompress())
        width, height, sampling, space = (c.c_int() for _ in range(4))
        buffer = c.create_string_buffer(64 << 20)
        count, begin, cpu = 0, time.perf_counter(), time.thread_time()
        while True:
            data = self.files[(first + count) % len(self.files)]
            size = c.c_ulong(len(data))
            library.tjDecompressHeader3(handle, data, size, c.byref(width), c.byref(height),
                                        c.byref(sampling), c.byref(space))
            if width.value * height.value * 3 > len(buffer):
                buffer = c.create_string_buffer(width.value * height.value * 3)
            if library.tjDecompress2(handle, data, size, buffer, width, 0, height, 0, 0) != 0:
                raise RuntimeError(library.tjGetErrorStr2(handle))
            count += 1
            spent = time.perf_counter() - begin
            if spent >= seconds:
                break
        library.tjDestroy(handle)
        rates.append(count / spent)
        cpu_ms.append((time.thread_time() - cpu) * 1e3 / count)

    def run(self, seconds):
        rates, cpu_ms = [], []
        threads = [threading.Thread(target=self.loop,
                                    args=(i * len(self.files) // self.loops, seconds, rates, cpu_ms))
                   for i in range(self.loops)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"rate": sum(rates), "cpu_ms": sum(cpu_ms) / len(cpu_ms)}


def photographs(photos):
    """The photographs for FFCV's writer: arrays that carry the bytes they were decoded from."""
    import numpy
    from torchvision import datasets

    class Photograph(numpy.ndarray):
        pass

    def load(path):
        array = numpy.array(datasets.folder.pil_loader(path)).view(Photograph)
        with open(path, "rb") as file:
            array.stored = numpy.frombuffer(file.read(), numpy.uint8)
        return array

    return datasets.ImageFolder(photos, loader=load)


class Ffcv:
    """FFCV's Loader over its own file with the very same JPEGs.

    FFCV's writer would encode them again, smaller and with half the colour, which is less to
    decode; so its encoder is replaced by one that returns the stored bytes.
    """

    def __init__(self, photos, work):
        import ffcv.fields.rgb_image
        from ffcv.fields import IntField, RGBImageField
        from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.transforms import ToTensor
        from ffcv.writer import DatasetWriter
        ffcv.fields.rgb_image.encode_jpeg = lambda array, quality: array.stored
        path = os.path.join(work, "peer.beton")
        dataset = photographs(photos)
        writer = DatasetWriter(path, {"image": RGBImageField(write_mode="jpg"),
                                      "label": IntField()}, num_workers=WORKERS)
        writer.from_indexed_dataset(dataset)
        loader = Loader(path, batch_size=BATCH, num_workers=WORKERS, order=OrderOption.SEQUENTIAL,
                        indices=list(range(len(dataset))) * EPOCHS, os_cache=True,
                        pipelines={"image": [CenterCropRGBImageDecoder((SIZE, SIZE), ratio=1),
                                             ToTensor()],
                                   "label": [IntDecoder(), ToTensor()]})
        self.batches = forever(loader)
        next(self.batches)  # compiles the pipelines

    def run(self, seconds):
        return {"rate": timed(self.batches, seconds)}


SIDES = {
    "torch-jpeg": torch_jpeg,
    "torch-hdf5": torch_hdf5,
    "torch-lmdb": torch_lmdb,
    "bare-1": lambda photos, work: Bare(photos, 1),
    "bare-2": lambda photos, work: Bare(photos, 2),
    "ffcv": Ffcv,
}


def main():
    name, photos, work = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    side = SIDES[name](photos, work)
    answer("ready")
    for line in sys.stdin:
        answer(side.run(float(line)))
    for worker in multiprocessing.active_children():
        worker.terminate()
        worker.join()
    os._exit(0)  # without waiting for threads that still prepare batches


main()
