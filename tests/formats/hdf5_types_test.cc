// SPDX-License-Identifier: Apache-2.0
// Datasets of every kind that h5py writes, read as h5py reads them.
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill {
namespace {

// AddressSanitizer makes every read ten times as long: it sees fewer places damaged.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kSlower = 5;
#else
constexpr std::size_t kSlower = 1;
#endif

namespace fs = std::filesystem;
using test::TemporaryFolder;

const Format& hdf5() { return find_format("hdf5"); }

// Runs `body` with the file `f` and the list `want` of (row, field, bytes); false without h5py.
bool h5py(const TemporaryFolder& folder, const std::string& body, const std::string& options = "") {
  const std::string path = (folder / "file.h5").string();
  test::write_text(folder / "make.py",
                   "import h5py, io, numpy as np\nwant = []\n"
                   "def numbers(name, a, kind=None):\n"
                   "  a = np.asarray(a)\n"
                   "  a = a.astype(a.dtype.newbyteorder('<'))\n"
                   "  for i, row in enumerate(a): want.append((i, name, row.tobytes()))\n"
                   "def texts(name, values):\n"
                   "  for i, v in enumerate(values): want.append((i, name, bytes(v)))\n"
                   "def npy(name, values):\n"
                   "  for i, v in enumerate(values):\n"
                   "    b = io.BytesIO(); np.save(b, v); want.append((i, name, b.getvalue()))\n"
                   "rng = np.random.default_rng(1)\n"
                   "with h5py.File('" +
                       path + "', 'w'" + options + ") as f:\n" + body + "open('" +
                       (folder / "want.txt").string() +
                       "', 'w').write(''.join(f'{i} {n} {b.hex()}\\n' for i, n, b in "
                       "sorted(want)))\n");
  const auto made = test::run_command("/usr/bin/python3 '" + (folder / "make.py").string() + "'");
  if (made.status == 0) return true;
  INFO(made.err);
  REQUIRE(made.err.find("No module named") != std::string::npos);
  test::skip("python3-h5py is not installed");
  return false;
}

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = static_cast<unsigned>(byte);
    text += "0123456789abcdef"[value / 16];
    text += "0123456789abcdef"[value % 16];
  }
  return text;
}

std::string dump(const std::string& path, Access access) {
  OpenShard shard(hdf5(), path, access);
  std::string all;
  SampleView view;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().will_need(n);
    shard.reader().read(n, view);
    for (const FieldView& field : view.fields) {
      all += std::to_string(n) + ' ' + std::string(field.name) + ' ' + hex(field.bytes) + '\n';
    }
  }
  return all;
}

ErrorInfo refusal(const std::string& path) {
  try {
    OpenShard shard(hdf5(), path);
  } catch (const Error& error) {
    return error.info();
  }
  FAIL("no error was thrown");
  return {};
}

// Sorted by row, then name: as Python sorts them.
void check_same(const TemporaryFolder& folder, const std::string& inner = "") {
  const std::string want = test::read_text(folder / "want.txt");
  REQUIRE(want.size() > 100);
  const std::string path = (folder / "file.h5").string() + inner;
  CHECK((dump(path, Access::kMap) == want));
  CHECK((dump(path, Access::kRead) == want));
}

const std::string kTypes = R"(
  x = rng.normal(size=(6, 2, 3)).astype(kind)
  f.create_dataset('plain', data=x)
  f.create_dataset('chunked', data=x, chunks=(4, 2, 3))
  f.create_dataset('cut', data=x, chunks=(4, 1, 2))
  f.create_dataset('g/deep', data=x, chunks=(2, 2, 3), compression='gzip', shuffle=True)
  for n in ('plain', 'chunked', 'cut', 'g/deep'): numbers(n, x)
)";

}  // namespace

TEST_CASE("hdf5 numbers of every kind and order are h5py's", "[formats][hdf5]") {
  const std::string kind = GENERATE("u1", "i1", "<u2", ">u2", "<i4", ">i4", "<i8", ">u8", "<f2",
                                    ">f2", "<f4", ">f4", "<f8", ">f8", "?", "<c8", ">c8", "<c16");
  const std::string version = GENERATE("", ", libver='latest'");
  TemporaryFolder folder;
  if (!h5py(folder, "  kind = '" + kind + "'" + kTypes, version)) return;
  CAPTURE(kind, version);
  check_same(folder);
}

TEST_CASE("hdf5 strings, bytes and sequences are h5py's", "[formats][hdf5]") {
  const std::string how = GENERATE("", ", chunks=(3,)", ", chunks=(2,), compression='gzip'");
  TemporaryFolder folder;
  if (!h5py(folder, "  how = dict(data=None" + how + ")\n  del how['data']\n" + R"(
  words = [b'', b'a', 'caf\u00e9'.encode(), b'x' * 5000, b'four', b'five ', b'six']
  f.create_dataset('text', data=words, dtype=h5py.string_dtype(), **how)
  f.create_dataset('fixed', data=np.array([w[:6] for w in words], 'S6'), **how)
  texts('text', words)
  texts('fixed', [w[:6] for w in words])
  t = h5py.h5t.TypeID.copy(h5py.h5t.C_S1); t.set_size(6); t.set_strpad(h5py.h5t.STR_SPACEPAD)
  d = h5py.h5d.create(f.id, b'spaces', t, h5py.h5s.create_simple((7,)))
  d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([w[:6].ljust(6) for w in words], 'S6'), t)
  texts('spaces', [w[:6].rstrip() for w in words])
  raw = [rng.integers(0, 256, n).astype('u1') for n in (0, 1, 200000, 7, 4000, 4095, 33)]
  v = f.create_dataset('raw', (7,), dtype=h5py.vlen_dtype('u1'), **how)
  for i, r in enumerate(raw): v[i] = r
  texts('raw', [r.tobytes() for r in raw])
  s = f.create_dataset('tokens', (7,), dtype=h5py.vlen_dtype('>i4'), **how)
  seq = [np.arange(n, dtype='<i4') for n in (1, 1, 3, 0, 5, 300, 2)]
  for i, q in enumerate(seq): s[i] = q
  npy('tokens', seq)
  f.create_dataset('opaque', data=np.array([w[:6] for w in words], 'V6'), **how)
  texts('opaque', [w[:6].ljust(6, b'\0') for w in words])
  f.create_dataset('one', data=np.array([[w[:6]] for w in words], 'S6'))
  texts('one', [w[:6] for w in words])
)")) {
    return;
  }
  CAPTURE(how);
  check_same(folder);
}

TEST_CASE("hdf5 compounds, enumerations and arrays become fields", "[formats][hdf5]") {
  const std::string how = GENERATE("", ", chunks=(3,), compression='lzf'");
  TemporaryFolder folder;
  if (!h5py(folder, "  how = dict(data=None" + how + ")\n  del how['data']\n" + R"(
  inner = np.dtype([('i', '>i2'), ('z', '<c8')])
  kind = np.dtype([('id', '>i4'), ('name', 'S5'), ('box', '<f4', (2, 2)), ('in', inner)])
  a = np.zeros(8, kind)
  a['id'] = np.arange(8); a['name'] = [b'n%d' % i for i in range(8)]
  a['box'] = rng.normal(size=(8, 2, 2)); a['in']['i'] = -np.arange(8); a['in']['z'] = 1 + 2j
  f.create_dataset('a', data=a, **how)
  numbers('a.id', a['id']); texts('a.name', a['name']); numbers('a.box', a['box'])
  numbers('a.in.i', a['in']['i']); numbers('a.in.z', a['in']['z'])
  mixed = np.dtype([('word', h5py.string_dtype()), ('n', 'u1')])
  m = f.create_dataset('m', (8,), mixed, **how)
  for i in range(8): m[i] = ('w' * i, i)
  texts('m.word', [b'w' * i for i in range(8)]); numbers('m.n', np.arange(8, dtype='u1'))
  color = h5py.enum_dtype({'red': 1, 'green': 2}, basetype='>i2')
  f.create_dataset('enum', data=np.arange(8) % 2 + 1, dtype=color, **how)
  numbers('enum', (np.arange(8) % 2 + 1).astype('i2'))
  t = np.dtype(('<u2', (3,)))
  f.create_dataset('arrays', (8,), dtype=t, **how)[...] = np.arange(24).reshape(8, 3)
  numbers('arrays', np.arange(24, dtype='u2').reshape(8, 3))
)")) {
    return;
  }
  CAPTURE(how);
  check_same(folder);
}

TEST_CASE("hdf5 filters give back what was written", "[formats][hdf5]") {
  const std::string how =
      GENERATE("compression='gzip'", "compression='gzip', shuffle=True, fletcher32=True",
               "compression='lzf'", "compression='lzf', shuffle=True", "compression='szip'",
               "fletcher32=True", "shuffle=True", "scaleoffset=0");
  const std::string version = GENERATE("", ", libver='latest'");
  TemporaryFolder folder;
  if (!h5py(folder,
            "  x = rng.integers(0, 50, (100, 20)).astype('i4')\n"
            "  x[50:] = np.arange(1000).reshape(50, 20)\n"
            "  f.create_dataset('x', data=x, chunks=(30, 20), " +
                how +
                ")\n  f.create_dataset('grown', (60, 20), 'i4', maxshape=(None, 20), "
                "chunks=(7, 20), " +
                how + ")[:] = x[:60]\n  f['grown'].resize(100, 0)\n" +
                "  numbers('x', x); numbers('grown', np.concatenate([x[:60], 0 * x[:40]]))\n",
            version)) {
    return;
  }
  CAPTURE(how, version);
  check_same(folder);
}

TEST_CASE("hdf5 reads compact, unwritten, shifted and SWMR files", "[formats][hdf5]") {
  const auto [options, extra] = GENERATE(table<std::string, std::string>(
      {{"", ""},
       {", userblock_size=1024", ""},
       {", libver='latest'", "  f.swmr_mode = True\n  f['c'][3] = 9\n  f['c'].flush()\n"},
       {", libver=('earliest', 'v108')", ""},
       {", track_order=True", ""}}));
  TemporaryFolder folder;
  if (!h5py(folder,
            R"(
  x = np.arange(40, dtype='i4').reshape(10, 4)
  p = h5py.h5p.create(h5py.h5p.DATASET_CREATE); p.set_layout(h5py.h5d.COMPACT)
  d = h5py.h5d.create(f.id, b'compact', h5py.h5t.STD_I32LE, h5py.h5s.create_simple((10, 4)), p)
  d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
  f.create_dataset('never', (10, 2), 'f4', fillvalue=2.5)
  f.create_dataset('holes', (10, 4), 'i4', chunks=(2, 4), fillvalue=7)[4:6] = 1
  f.create_dataset('c', data=np.arange(10), chunks=(4,), maxshape=(None,))
)" + extra + R"(
  numbers('compact', x); numbers('never', np.full((10, 2), 2.5, 'f4'))
  h = np.full((10, 4), 7, 'i4'); h[4:6] = 1
  numbers('holes', h)
  numbers('c', f['c'][:])
)",
            options)) {
    return;
  }
  CAPTURE(options);
  check_same(folder);
}

TEST_CASE("hdf5 parts of a file are chosen with #", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (!h5py(folder, R"(
  for name, n in (('train', 7), ('test', 5)):
    f[name + '_set_x'] = np.arange(n); f[name + '_set_y'] = np.arange(n)
    f['g/' + name + '/x'] = np.arange(n, dtype='u1'); f['g/' + name + '/y'] = np.arange(n)
  f['classes'] = np.array([b'a', b'b'])
)")) {
    return;
  }
  const std::string path = (folder / "file.h5").string();
  const auto fields = [&](const std::string& inner) {
    OpenShard shard(hdf5(), path + inner);
    SampleView view;
    shard.reader().read(4 % shard.reader().size(), view);
    std::string names = std::to_string(shard.reader().size());
    for (const FieldView& field : view.fields) names.append(1, ' ').append(field.name);
    return names;
  };
  CHECK(fields("#/train") == "7 set_x set_y");
  CHECK(fields("#train_set_") == "7 x y");
  CHECK(fields("#/g/test") == "5 x y");
  CHECK(fields("#/g/test/x") == "5 x");
  CHECK(fields("#classes") == "2 classes");
  const ErrorInfo all = refusal(path);
  CHECK(all.code == ErrorCode::kInvalidArgument);
  CHECK(all.cause.find("/train_set_x: 7") != std::string::npos);
  CHECK(refusal(path + "#g").remedy ==
        "choose one set: " + path + "#/g/test, " + path + "#/g/train");
  CHECK(refusal(path + "#nothing").cause.find("\"nothing\"") != std::string::npos);
  const Dataset dataset = Dataset::open(path + "#/g/train");
  CHECK(dataset.size() == 7);
  DatasetReader reader(dataset);
  SampleView view;
  reader.read(6, view);
  CHECK(as_text(view.find("x")->bytes) == "\x06");
}

TEST_CASE("hdf5 warns of chunks that random order unpacks again and again",
          "[formats][hdf5][cases]") {
  TemporaryFolder folder;
  if (!test::make_case("29", folder.path())) return test::skip("no collection of cases");
  OpenShard shard(hdf5(), folder / "29/big_chunks.h5");
  REQUIRE(shard.reader().info().warnings.size() == 1);
  CHECK(shard.reader().info().warnings[0].find("200 rows, 2457600 bytes") != std::string::npos);
}

TEST_CASE("hdf5 gives values without bytes as such", "[formats][hdf5][cases]") {
  TemporaryFolder folder;
  if (!test::make_case("22", folder.path())) return test::skip("no collection of cases");
  OpenShard shard(hdf5(), folder / "22/z.h5");
  REQUIRE(shard.reader().size() == 2);
  SampleView view;
  shard.reader().read(0, view);
  CHECK(view.find("img")->bytes.size() > 100);
  shard.reader().read(1, view);
  CHECK(view.find("img")->bytes.empty());
}

TEST_CASE("hdf5 unpacks lzf and checks fletcher32", "[formats][hdf5][cases]") {
  TemporaryFolder folder;
  if (!test::make_case("65", folder.path())) return test::skip("no collection of cases");
  const std::string path = (folder / "65/lzf.h5").string();
  const auto check = [&] {
    OpenShard shard(hdf5(), path);
    SampleView view;
    for (std::uint64_t n = 0; n < 100; ++n) {
      shard.reader().read(n, view);
      std::int64_t values[101];
      std::memcpy(values, view.find("x")->bytes.data(), 800);
      std::memcpy(values + 100, view.find("g")->bytes.data(), 8);
      for (std::int64_t i = 0; i < 100; ++i) {
        REQUIRE(values[i] == 100 * static_cast<std::int64_t>(n) + i);
      }
      REQUIRE(values[100] == static_cast<std::int64_t>(n));
    }
  };
  check();
  // Some byte of the second dataset's chunks, which lie behind all else that is long.
  const std::string whole = test::read_text(path);
  int found = 0;
  for (std::size_t at = whole.size() - 300; at < whole.size(); at += 20) {
    std::string bent = whole;
    bent[at] ^= 1;
    test::write_text(path, bent);
    try {
      check();  // values are right, or there is an error
    } catch (const Error& error) {
      found += error.code() == ErrorCode::kDataLoss;
    }
  }
  CHECK(found > 0);
}

TEST_CASE("hdf5 says which fields it leaves out", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (!h5py(folder, R"(
  f['x'] = np.arange(3)
  f.create_dataset('refs', data=[f['x'].ref] * 3, dtype=h5py.ref_dtype)
  f['many'] = np.array([[b'a', b'b']] * 3)
)")) {
    return;
  }
  OpenShard shard(hdf5(), folder / "file.h5");
  REQUIRE(shard.reader().info().warnings.size() == 2);
  CHECK(shard.reader().info().warnings[0].find("field \"many\" is left out") == 0);
  CHECK(shard.reader().info().warnings[1].find("field \"refs\" is left out") == 0);
}

TEST_CASE("hdf5 shards of the vlen layout are h5py's vlen datasets", "[formats][hdf5]") {
  TemporaryFolder folder;
  const fs::path path = folder / "v.h5";
  WriteOptions options;
  options.fields = {{"cls", FieldKind::kClass, {}, false},
                    {"jpg", FieldKind::kBytes, {}, false},
                    {"txt", FieldKind::kBytes, {}, true}};
  options.vlen = true;
  const auto writer = hdf5().create(path, options);
  std::string wanted;
  for (int n = 0; n < 9000; ++n) {
    Sample sample("key" + std::to_string(n));
    sample.add("cls", std::to_string(n % 7));
    sample.add("jpg", std::string(static_cast<std::size_t>(n % 500), static_cast<char>(n)));
    if (n % 2 == 0) sample.add("txt", "text");
    writer->write(sample.view());
  }
  writer->close();
  const auto read = test::run_command(
      "/usr/bin/python3 -c \"import h5py; f = h5py.File('" + path.string() +
      "'); j = f['jpg']; print(j.shape, h5py.check_vlen_dtype(j.dtype), len(j[8999]),"
      " j[4097].tobytes() == bytes([4097 % 256] * 97), f['txt'][4].tobytes(), "
      "f['txt__present'][5])\"");
  if (read.err.find("No module named") != std::string::npos) return test::skip("no h5py");
  CHECK(read.out == "(9000,) uint8 499 True b'text' 0\n");

  const std::string good = dump(path.string(), Access::kMap);
  CHECK(std::count(good.begin(), good.end(), '\n') == 9000 * 2 + 4500);
  const std::string whole = test::read_text(path);
  for (std::size_t part = 0; part < 64; ++part) {
    test::write_text(path, whole.substr(0, whole.size() * part / 64));
    CHECK(refusal(path.string()).code == ErrorCode::kDataLoss);
  }
  std::size_t errors = 0;
  for (std::size_t at = 8; at < whole.size(); at += kSlower * (at < 20000 ? 211 : 40009)) {
    std::string bent = whole;
    bent[at] ^= 0x04;
    test::write_text(path, bent);
    try {
      const std::string got = dump(path.string(), Access::kMap);
      CHECK(std::count(got.begin(), got.end(), '\n') == 9000 * 2 + 4500);
    } catch (const Error& error) {
      CHECK((error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported ||
             error.code() == ErrorCode::kInvalidArgument));
      ++errors;
    }
  }
  CHECK(errors > 5 / kSlower);
}

TEST_CASE("hdf5 finds damage of filtered chunks and heaps", "[formats][hdf5][cases]") {
  TemporaryFolder folder;
  if (!h5py(folder, R"(
  f.create_dataset('x', data=rng.integers(0, 9, (64, 64)), chunks=(64, 64), fletcher32=True)
  v = f.create_dataset('v', (64,), dtype=h5py.vlen_dtype('u1'))
  for i in range(64): v[i] = np.full(3000 + i, i, 'u1')
)")) {
    return;
  }
  const std::string path = (folder / "file.h5").string();
  const std::string whole = test::read_text(path);
  const std::string good = dump(path, Access::kMap);
  int errors = 0;
  for (std::size_t at = 100; at < whole.size(); at += kSlower * 61) {
    std::string bent = whole;
    bent[at] ^= 0x10;
    test::write_text(path, bent);
    try {
      const std::string got = dump(path, Access::kMap);
      CHECK(std::count(got.begin(), got.end(), '\n') == std::count(good.begin(), good.end(), '\n'));
    } catch (const Error& error) {
      CHECK((error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported ||
             error.code() == ErrorCode::kInvalidArgument));
      ++errors;
    }
  }
  CHECK(errors > 100 / static_cast<int>(kSlower));
}

}  // namespace shardmill
