// SPDX-License-Identifier: Apache-2.0
// `shardmill index` as people meet it, on files that other programs wrote.
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill::test;
using Json = nlohmann::json;

TEST_CASE("PCam's two files train without a conversion", "[cli][index]") {
  if (run_command("/usr/bin/python3 -c 'import h5py'").status != 0) return skip("h5py is absent");
  TemporaryFolder folder;
  write_text(folder / "make.py",
             "import h5py, numpy as np\n"
             "x = (np.arange(6*96*96*3) % 251).astype('u1').reshape(6, 96, 96, 3)\n"
             "with h5py.File('x.h5', 'w') as f: f.create_dataset('x', data=x, chunks=(1,96,96,3))\n"
             "with h5py.File('y.h5', 'w') as f:\n"
             "  f['y'] = (np.arange(6) % 2).astype('u1').reshape(6, 1, 1, 1)\n");
  REQUIRE(run_command("cd '" + folder.path().string() + "' && /usr/bin/python3 make.py").status ==
          0);
  const auto run = [&](const std::string& arguments) {
    return shardmill_in(folder.path(), arguments);
  };
  const auto made = run("index x.h5 --with y.h5 --rename y=cls,x=image --output pcam.json --json");
  INFO(made.err);
  REQUIRE(made.status == 0);
  const Json report = Json::parse(made.out);
  CHECK(report["samples"] == 6);
  CHECK(report["fields"] == Json::parse(R"([{"name":"cls","kind":"class"},
                                            {"name":"image","kind":"array"}])"));
  const Json seen = Json::parse(run("inspect pcam.json --json").out);
  CHECK(seen["fields"][1]["shape"] == Json({96, 96, 3}));
  const Json sample = Json::parse(run("inspect pcam.json --sample 3 --json").out);
  CHECK(sample["fields"][0]["text"] == "1");
  CHECK(run("verify pcam.json").status == 0);
  // The loader's workers attach the joined set and its index.
  Json digests[2];
  for (int workers : {0, 2}) {
    const auto batches =
        run("batches pcam.json --batch-size 2 --shuffle full --seed 3 --digest "
            "--json --workers " +
            std::to_string(workers));
    INFO(batches.err);
    REQUIRE(batches.status == 0);
    const Json trained = Json::parse(batches.out);
    CHECK(trained["coverage"]["unique"] == 6);
    for (const Json& batch : trained["batches"]) digests[workers / 2].push_back(batch["digest"]);
  }
  CHECK(digests[0].size() == 3);
  CHECK(digests[0] == digests[1]);
  REQUIRE(run("convert pcam.json out --to tar --quiet").status == 0);
  CHECK(run("verify pcam.json out").status == 0);
}

TEST_CASE("What index refuses", "[cli][index]") {
  TemporaryFolder folder;
  write_text(folder / "raw/a/1.jpg", "1");
  const auto fails = [&](const std::string& arguments, int status, const std::string& line) {
    const auto result = shardmill_in(folder.path(), "index " + arguments);
    CHECK(result.status == status);
    CHECK(result.err == "shardmill: " + line + "\n");
  };
  fails("raw", 2, "--output: is missing; name the file to write, for example data.json");
  fails("raw --output x.txt", 2,
        "--output: \"x.txt\" does not end in .json; manifests are known by this name");
  fails("raw --output no/x.json", 1, "@/no: no such directory; make it, then index again");
  fails("raw --output x.json --rename jpg", 2,
        "--rename: \"jpg\" is not OLD=NEW; for example y=cls");
  fails("raw --output x.json --fields png,jpg", 2,
        "--fields: there is no field \"png\"; the fields are cls, jpg");
  fails("raw --output x.json --also wids", 2,
        "--also: wids is an index of tar files, the data are folder");
  fails("raw --beside", 2,
        "--beside: folders and token files have no index that could be kept; write a manifest with "
        "--output");
  fails("raw raw2 --output x.json", 1, "raw2: no such file or directory; check the path");
  fails("raw --seq-len 5 --output x.json", 2,
        "--dtype: is missing; give it together with --seq-len");
}

TEST_CASE("inspect explains what people get wrong in names", "[cli][lint]") {
  TemporaryFolder folder;
  write_text(folder / "make.py",
             "import io, tarfile\n"
             "t = tarfile.open('a.tar', 'w', format=tarfile.USTAR_FORMAT)\n"
             "for n in ['1.jpg', '1.cls', '2.jpg', '3.jpg', '3.cls', 'x.v1.jpg', 'x.v2.jpg']:\n"
             "  i = tarfile.TarInfo(n); i.size = 1; t.addfile(i, io.BytesIO(b'7'))\n"
             "t.close()\n");
  REQUIRE(run_command("cd '" + folder.path().string() + "' && /usr/bin/python3 make.py").status ==
          0);
  const Json seen = Json::parse(shardmill_in(folder.path(), "inspect a.tar --json").out);
  const std::string said = seen["warnings"].dump();
  CHECK_THAT(said, Catch::Contains("field \\\"cls\\\" is missing in 2 of 4 samples, the first: "
                                   "sample \\\"2\\\""));
  CHECK_THAT(said,
             Catch::Contains("2 field names with dots that few samples have (\\\"v1.jpg\\\" of "
                             "sample \\\"x\\\")"));
  CHECK(shardmill_in(folder.path(), "inspect a.tar --strict").status == 1);
}
