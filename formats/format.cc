// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include "formats/internal/token_format.h"

namespace shardmill {

namespace {

const Format& recognise(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(ErrorCode::kNotFound, path.string(), {}, "no such file or directory");
  }
  for (const Format* format : all_formats()) {
    if (format->recognises(path)) return *format;
  }
  throw Error(ErrorCode::kUnsupported, path.string(), {},
              "no storage format recognises this file by its content",
              "give a tar, LMDB or HDF5 file, or a folder");
}

[[noreturn]] void only_files(const Format& format, const Source& source) {
  throw Error(ErrorCode::kUnsupported, source.name(), {},
              std::string(format.name()) + " can only be read as files", "unpack it first");
}

}  // namespace

std::unique_ptr<Stream> Format::stream(Source& source) const { only_files(*this, source); }

std::string Format::describe_stream(Source& source, bool) const { only_files(*this, source); }

std::string_view field_kind_name(FieldKind kind) noexcept {
  switch (kind) {
    case FieldKind::kClass:
      return "class";
    case FieldKind::kArray:
      return "array";
    case FieldKind::kBytes:
      break;
  }
  return "bytes";
}

const Format& find_format(std::string_view name) {
  std::string known;
  for (const Format* format : all_formats()) {
    if (format->name() == name) return *format;
    known += known.empty() ? "" : ", ";
    known += format->name();
  }
  if (internal::token_format().name() == name) return internal::token_format();
  throw Error(ErrorCode::kInvalidArgument, {}, {}, "unknown format \"" + escape(name) + "\"",
              "choose one of " + known);
}

OpenShard::OpenShard(const std::filesystem::path& path, Access access)
    : OpenShard(recognise(path), path, access) {}

OpenShard::OpenShard(const Format& format, const std::filesystem::path& path, Access access)
    : format_(&format),
      index_(format.build_index(path, access)),
      reader_(format.open(path, index_, access)) {}

}  // namespace shardmill
