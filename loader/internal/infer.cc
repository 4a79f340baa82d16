// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/infer.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <string>

#include "loader/internal/fields.h"

namespace shardmill::internal {

namespace {

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

}  // namespace

void resolve_outputs(CorpusReader& reader, LoaderOptions& options) {
  const bool infer = options.outputs.empty();
  if (!infer && std::none_of(options.outputs.begin(), options.outputs.end(), open_type)) return;
  if (reader.size() == 0) return;
  SampleView sample;
  reader.read(0, sample);
  const std::string path = reader.corpus().datasets().front().spec();
  if (infer) options.outputs = outputs_of(sample);
  for (Output& output : options.outputs) {
    if (!open_type(output)) continue;
    try {
      const FieldView* const field = find_field(sample, output);
      if (field == nullptr) throw missing_field(sample, output);
      if (output.kind == OutputKind::kImage) {
        const ImageInfo info = probe_image(field->bytes);
        output.row.shape = {info.height, info.width, 3};
      } else {
        output.row = array_of(*field).type;
      }
    } catch (const Error& error) {
      ErrorInfo info = error.info();
      info.path = path;
      info.place = sample_place(sample.key, output.field);
      throw Error(info);
    }
    output.like = sample_place(sample.key);
  }
}

}  // namespace shardmill::internal
