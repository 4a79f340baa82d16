// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/infer.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <string>

#include "loader/internal/fields.h"

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kSamplesTried = 1000;

bool open_type(const Output& output) {
  return (output.kind == OutputKind::kArray || output.kind == OutputKind::kImage) &&
         output.row.shape.empty();
}

std::vector<Output> outputs_of(const SampleView& sample) {
  std::vector<Output> outputs;
  bool image = false;
  for (const FieldView& field : sample.fields) {
    const std::string name(field.name);
    if (name == "cls") {
      outputs.push_back(class_output("label", name));
    } else if (field.array != nullptr || name == "npy" || name.ends_with(".npy")) {
      outputs.push_back(array_output(name, name));
    } else if (!image && name.find('.') == std::string::npos && is_image_field(name)) {
      // Of one dataset some samples have a jpg and others a png: whichever comes first.
      image = true;
      outputs.push_back(bytes_output(name, ""));
    } else {
      outputs.push_back(bytes_output(name, name));
    }
  }
  return outputs;
}

// Calls `use` with one sample after the other until it returns true; false if it never does.
template <class Use>
bool try_samples(CorpusReader& reader, const LoaderOptions& options, const Use& use) {
  const std::uint64_t count = std::min(reader.size(), kSamplesTried);
  for (std::uint64_t number = 0; number < count; ++number) {
    try {
      SampleView sample;
      reader.read(number, sample);
      if (use(sample)) return true;
    } catch (const Error&) {
      // A bad sample is dealt with when it is due; here it only tells nothing about the others.
      if (options.bad_samples == BadSamples::kFail || number + 1 == count) throw;
    }
  }
  return false;
}

// Gives `output` the type that its field has in `sample`. False if it may lack the field, and does.
bool take_type(Output& output, const SampleView& sample, const std::string& path,
               bool apply_orientation) {
  const FieldView* const field = find_field(sample, output);
  if (field == nullptr && output.optional) return false;
  try {
    if (field == nullptr) throw missing_field(sample, output);
    if (output.kind == OutputKind::kImage) {
      const ImageInfo info = probe_image(field->bytes, apply_orientation);
      output.row = output.pixels.row(info.width, info.height);
    } else {
      output.row = array_of(*field).type;
    }
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.path = path;
    info.place = sample_place(sample.key, output.field.empty() ? output.name : output.field);
    throw Error(info);
  }
  output.like = sample_place(sample.key);
  return true;
}

// Masks have the size of the images that they follow.
void size_masks(std::vector<Output>& outputs) {
  for (Output& output : outputs) {
    if (output.kind != OutputKind::kMask) continue;
    for (const Output& image : outputs) {
      if (image.name != output.image || image.row.shape.empty()) continue;
      const auto first = image.row.shape.begin() + (image.pixels.channels_first ? 1 : 0);
      output.row.shape.assign(first, first + 2);
    }
  }
}

}  // namespace

void resolve_outputs(CorpusReader& reader, LoaderOptions& options) {
  size_masks(options.outputs);
  if (reader.size() == 0) return;
  const std::string path = reader.corpus().datasets().front().spec();
  if (options.outputs.empty()) {
    try_samples(reader, options, [&](const SampleView& sample) {
      options.outputs = outputs_of(sample);
      return true;
    });
  }
  for (Output& output : options.outputs) {
    if (!open_type(output)) continue;
    const bool found = try_samples(reader, options, [&](const SampleView& sample) {
      return take_type(output, sample, path, options.apply_orientation);
    });
    if (found) continue;
    throw Error(ErrorCode::kNotFound, path, "output \"" + escape(output.name) + "\"",
                "none of the first " + std::to_string(std::min(reader.size(), kSamplesTried)) +
                    " samples has its field",
                "leave the output out");
  }
  size_masks(options.outputs);
}

}  // namespace shardmill::internal
