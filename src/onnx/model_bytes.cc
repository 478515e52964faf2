#include "onnx/model_bytes.h"

#include <climits>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "onnx/external.h"
#include "onnx/proto.h"

namespace evoq {
namespace {

namespace pb = google::protobuf;

// The files that tensors in the message, wherever they stand in it, name as theirs.
void CollectLocations(const pb::Message& message, std::set<std::string>& locations) {
  if (const auto* tensor = dynamic_cast<const onnx::TensorProto*>(&message)) {
    if (tensor->data_location() != onnx::TensorProto::EXTERNAL) return;
    for (const auto& entry : tensor->external_data()) {
      if (entry.key() == "location") locations.insert(entry.value());
    }
    return;
  }
  std::vector<const pb::FieldDescriptor*> fields;
  const pb::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      CollectLocations(reflection.GetMessage(message, field), locations);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      CollectLocations(reflection.GetRepeatedMessage(message, field, i), locations);
  }
}

}  // namespace

Result<int64_t> ModelFileBytes(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  auto bytes = static_cast<int64_t>(file->bytes().size());
  onnx::ModelProto model;
  if (bytes > INT_MAX || !model.ParseFromArray(file->bytes().data(), static_cast<int>(bytes)))
    return bytes;  // of another format
  std::set<std::string> locations, counted;
  CollectLocations(model, locations);
  ExternalFiles external(std::filesystem::path(path).parent_path().string());
  for (const std::string& location : locations) {
    EVOQ_ASSIGN(const auto data, WithContext(external.Open(location), path));
    if (counted.insert(data->path()).second) bytes += static_cast<int64_t>(data->bytes().size());
  }
  return bytes;
}

}  // namespace evoq
