// SPDX-License-Identifier: Apache-2.0
// usage: loader_bench PHOTOS WORK [--seconds 1] [--repeats 5] [--tiny 1000000]
// Loads photographs (a dataset directory), arrays, tiny samples and tokens, beside bare loops that
// do the same work. Prints one JSON object per side: {"row", "side", "rates": samples a second}.
// The sides of a row take turns. bench/loader runs it and adds the other programs.
#include <shardmill/formats/format.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/loader.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace shardmill;

namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string photos;
  std::string work;
  double seconds = 1;
  int repeats = 5;
  std::uint64_t tiny = 1'000'000;
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Samples a second over about `seconds`.
using Side = std::function<double(double seconds)>;

void compare(const std::string& row, const Arguments& arguments,
             const std::vector<std::pair<std::string, Side>>& sides) {
  std::vector<std::vector<double>> rates(sides.size());
  for (const auto& [name, side] : sides) side(arguments.seconds / 2);  // warm
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
      rates[i].push_back(sides[i].second(arguments.seconds));
    }
  }
  for (std::size_t i = 0; i < sides.size(); ++i) {
    std::printf("{\"row\": \"%s\", \"side\": \"%s\", \"rates\": [", row.c_str(),
                sides[i].first.c_str());
    for (std::size_t r = 0; r < rates[i].size(); ++r) {
      std::printf("%s%.1f", r > 0 ? ", " : "", rates[i][r]);
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }
}

// Epoch after epoch of one loader; its workers persist between the turns.
Side load(const std::string& dataset, LoaderOptions options) {
  options.shuffle = Shuffle::kFull;
  options.seed = 1;
  const auto loader = std::make_shared<Loader>(dataset, options);
  const auto epoch = std::make_shared<std::uint64_t>(0);
  return [loader, epoch](double seconds) {
    Batch batch;
    const auto next = [&] {
      while (!loader->next(batch)) loader->start_epoch(++*epoch);
    };
    // What was prepared while the others had their turn does not count, nor does starting up.
    const auto turn = Clock::now();
    while (since(turn) < seconds / 3) next();
    const auto begin = Clock::now();
    std::uint64_t samples = 0;
    do {
      next();
      samples += batch.size();
    } while (since(begin) < seconds);
    return static_cast<double>(samples) / since(begin);
  };
}

LoaderOptions images(int workers) {
  LoaderOptions options;
  options.outputs = {image_output("image", 224, 224), class_output()};
  options.batch_size = 64;
  options.num_workers = workers;
  return options;
}

// The loop that people write by hand: read, decode, one class number.
Side hand_written(const std::string& dataset) {
  const auto reader = std::make_shared<DatasetReader>(Dataset::open(dataset));
  const auto decoder = std::make_shared<ImageDecoder>();
  const auto rows = std::make_shared<std::vector<std::uint8_t>>(64 * 224 * 224 * 3);
  const auto position = std::make_shared<std::uint64_t>(0);
  return [=](double seconds) {
    const auto begin = Clock::now();
    std::uint64_t samples = 0;
    std::int64_t classes = 0;
    SampleView sample;
    do {
      for (std::size_t row = 0; row < 64; ++row, ++samples) {
        // A stride that visits every sample, out of order as the loader does.
        reader->read((*position)++ * 7919 % reader->size(), sample);
        for (const FieldView& field : sample.fields) {
          if (!is_image_field(field.name)) continue;
          decoder->decode_cover(field.bytes, 224, 224, rows->data() + row * 224 * 224 * 3);
        }
        classes += std::atoi(std::string(as_text(sample.find("cls")->bytes)).c_str());
      }
    } while (since(begin) < seconds);
    return classes < 0 ? 0 : static_cast<double>(samples) / since(begin);
  };
}

// Rows copied by `processes` processes from one piece of memory into another, both larger than the
// caches, a slot ring for the target as the loader has one.
Side copy_rows(std::size_t row_bytes, std::size_t rows, int processes) {
  const std::size_t ring = 6 * 64;
  const std::size_t bytes = (rows + ring) * row_bytes + 4096;
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::memset(memory, 1, bytes);
  return [=](double seconds) {
    auto* copied = reinterpret_cast<std::atomic<std::uint64_t>*>(memory);
    std::byte* const from = memory + 4096;
    std::byte* const to = from + rows * row_bytes;
    copied->store(0);
    const auto begin = Clock::now();
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      const pid_t pid = fork();
      if (pid == 0) {
        std::uint64_t row = static_cast<std::uint64_t>(process);
        std::uint64_t done = 0;
        while (since(begin) < seconds) {
          for (int i = 0; i < 16; ++i, ++done, row += static_cast<std::uint64_t>(processes)) {
            std::memcpy(to + row % ring * row_bytes, from + row * 7919 % rows * row_bytes,
                        row_bytes);
          }
        }
        copied->fetch_add(done);
        _exit(0);
      }
      children.push_back(pid);
    }
    for (const pid_t pid : children) waitpid(pid, nullptr, 0);
    return static_cast<double>(copied->load()) / since(begin);
  };
}

// Writes `samples` arrays of `type` as one HDF5 shard unless it is there.
std::string make_arrays(const std::string& path, const ArrayType& type, std::uint64_t samples) {
  if (std::filesystem::exists(path)) return path;
  const auto writer = find_format("hdf5").create(
      path,
      {.fields = {{.name = "x", .kind = FieldKind::kArray, .array = type}}, .samples = samples});
  std::vector<std::byte> value(type.bytes());
  char key[32];
  for (std::uint64_t n = 0; n < samples; ++n) {
    std::memset(value.data(), static_cast<int>(n), value.size());
    std::snprintf(key, sizeof key, "%09llu", static_cast<unsigned long long>(n));
    Sample sample(key);
    sample.add("x", value, &type);
    writer->write(sample.view());
  }
  writer->close();
  return path;
}

LoaderOptions arrays(std::size_t batch_size, int workers) {
  LoaderOptions options;
  options.outputs = {array_output("x", "x")};
  options.batch_size = batch_size;
  options.num_workers = workers;
  return options;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  if (argc < 3) {
    std::fputs("usage: loader_bench PHOTOS WORK [--seconds S] [--repeats N] [--tiny N]\n", stderr);
    std::exit(2);
  }
  arguments.photos = argv[1];
  arguments.work = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") arguments.seconds = std::atof(argv[i + 1]);
    if (option == "--repeats") arguments.repeats = std::atoi(argv[i + 1]);
    if (option == "--tiny") arguments.tiny = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return arguments;
}

void run(const Arguments& arguments) {
  compare("photographs", arguments,
          {{"loader, 2 workers", load(arguments.photos, images(2))},
           {"loader, 16 workers", load(arguments.photos, images(16))},
           {"loader, 0 workers", load(arguments.photos, images(0))},
           {"hand-written loop", hand_written(arguments.photos)}});
  const ArrayType decoded{DType::kUInt8, {224, 224, 3}};
  const std::string rows = make_arrays(arguments.work + "/decoded.h5", decoded, 2000);
  compare("decoded rows", arguments,
          {{"loader, 2 workers", load(rows, arrays(64, 2))},
           {"memcpy, 2 processes", copy_rows(decoded.bytes(), 2000, 2)}});
  const ArrayType small{DType::kUInt8, {32, 32, 3}};
  const std::string tiny = make_arrays(arguments.work + "/tiny.h5", small, arguments.tiny);
  compare("tiny samples", arguments,
          {{"loader, 2 workers", load(tiny, arrays(256, 2))},
           {"loader, 1 worker", load(tiny, arrays(256, 1))}});
  const ArrayType sequence{DType::kInt32, {2048}};
  const std::string tokens = make_arrays(arguments.work + "/tokens.h5", sequence, 50'000);
  compare("tokens", arguments, {{"loader, 2 workers", load(tokens, arrays(8, 2))}});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loader_bench: %s\n", error.what());
    return 1;
  }
}
