#include "tests/craft/etm.h"

#include <zstd.h>

#include <cstring>

#include "base/crc32c.h"
#include "program/container.h"
#include "tensor/dtype.h"

namespace evoq::craft {
namespace {

template <typename T>
void Put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint32_t Crc(std::string_view bytes) { return Crc32c(std::as_bytes(std::span(bytes))); }

std::string Compressed(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

std::unique_ptr<fb::TypeT> Type(DType dtype, std::vector<int64_t> dims) {
  auto type = std::make_unique<fb::TypeT>();
  type->dtype = static_cast<int8_t>(dtype);
  type->dims = std::move(dims);
  return type;
}

std::unique_ptr<fb::ValueT> Value(const std::string& name, std::unique_ptr<fb::TypeT> type) {
  auto value = std::make_unique<fb::ValueT>();
  value->name = name;
  value->type = std::move(type);
  return value;
}

std::unique_ptr<fb::ConstantT> Constant(uint64_t offset, uint64_t bytes) {
  auto constant = std::make_unique<fb::ConstantT>();
  constant->offset = offset, constant->bytes = bytes;
  return constant;
}

template <typename Table>
std::string Packed(const typename Table::NativeTableType& table) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &table));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace

std::string Write(const EtmFile& file) {
  std::string directory, body;
  const size_t head = static_cast<size_t>(kEtmHeaderBytes) +
                      static_cast<size_t>(kEtmEntryBytes) * file.blobs.size();
  for (const EtmBlob& blob : file.blobs) {
    const std::string stored = blob.stored ? *blob.stored
                               : blob.zstd ? Compressed(blob.bytes)
                                           : blob.bytes;
    while ((head + body.size()) % static_cast<size_t>(blob.alignment) != 0) body += '\0';
    std::string name = blob.name;
    name.resize(16, '\0');
    directory += name;
    Put<uint64_t>(directory, blob.offset.value_or(head + body.size()));
    Put<uint64_t>(directory, blob.stored_bytes.value_or(stored.size()));
    Put<uint64_t>(directory, blob.raw_bytes.value_or(blob.bytes.size()));
    Put<uint32_t>(directory, blob.crc.value_or(Crc(stored)));
    Put<uint8_t>(directory, blob.codec.value_or(blob.zstd ? 1 : 0));
    Put<uint8_t>(directory, blob.required);
    Put<uint16_t>(directory, 0);
    body += stored;
  }
  body += file.tail;
  std::string header = file.magic;
  Put<uint32_t>(header, file.version);
  Put<uint32_t>(header, file.count.value_or(static_cast<uint32_t>(file.blobs.size())));
  Put<uint64_t>(header, file.size.value_or(head + body.size()));
  Put<uint32_t>(header, file.directory_crc.value_or(Crc(directory)));
  Put<uint32_t>(header, file.header_crc.value_or(Crc(header)));
  return header + directory + body;
}

EtmModel::EtmModel() {
  // Scales 0.5 and 0.25 at 0, w at 8 (int8[2, 2]: 1, 2, 3, 4), b at 16 (1.5, -2).
  Put<float>(weights, 0.5f), Put<float>(weights, 0.25f);
  weights += std::string("\1\2\3\4\0\0\0\0", 8);
  Put<float>(weights, 1.5f), Put<float>(weights, -2.0f);
  graph.name = "small";
  graph.values.push_back(Value("x", Type(DType::kFloat32, {1, 2})));
  graph.values.push_back(Value("w", Type(DType::kInt8, {2, 2})));
  auto& quant = value(1).type->quant;
  quant = std::make_unique<fb::QuantT>();
  quant->scale_count = 2, quant->scales_offset = 0, quant->axis = 0;
  value(1).constant = Constant(8, 4);
  graph.values.push_back(Value("b", Type(DType::kFloat32, {2})));
  value(2).constant = Constant(16, 8);
  graph.values.push_back(Value("words", Type(DType::kString, {2})));
  value(3).constant = std::make_unique<fb::ConstantT>();
  value(3).constant->strings = {"one", "two"};
  graph.values.push_back(Value("y", nullptr));
  graph.nodes.push_back(std::make_unique<fb::NodeT>());
  node().op = "Add", node().name = "a";
  node().inputs = {0, 2}, node().outputs = {4};
  graph.inputs = {0}, graph.outputs = {4, 1, 3};
}

void AddSets(EtmModel& model) {
  model.graph.values.push_back(Value("q", Type(DType::kUint8, {1, 2})));
  auto& quant = model.value(5).type->quant = std::make_unique<fb::QuantT>();
  quant->scale = 0.5f;
  model.graph.nodes.push_back(std::make_unique<fb::NodeT>());
  model.node(1).op = "QuantizeLinear", model.node(1).name = "q";
  model.node(1).inputs = {0}, model.node(1).outputs = {5};
  for (const char* name : {"day", "night"}) {
    model.sets.sets.push_back(std::make_unique<fb::ScaleSetT>());
    model.sets.sets.back()->name = name, model.sets.sets.back()->samples = 3;
  }
  auto& changes = model.sets.sets[1]->changes;
  for (int32_t value : {5, 2}) {
    changes.push_back(std::make_unique<fb::ScaleChangeT>());
    changes.back()->value = value;
  }
  changes[0]->quant = std::make_unique<fb::QuantT>();
  changes[0]->quant->scale = 0.25f;
  changes[1]->constant = Constant(0, 8);
}

std::string Pack(const fb::GraphT& graph) { return Packed<fb::Graph>(graph); }
std::string Pack(const fb::PlansT& plans) { return Packed<fb::Plans>(plans); }
std::string Pack(const fb::ScaleSetsT& sets) { return Packed<fb::ScaleSets>(sets); }

EtmFile FileOf(const EtmModel& model) {
  EtmFile file;
  file.blobs.push_back({.name = "graph", .bytes = Pack(model.graph)});
  file.blobs.push_back({.name = "plans", .bytes = Pack(model.plans), .required = 0});
  file.blobs.push_back({.name = "weights", .bytes = model.weights});
  if (!model.sets.sets.empty())
    file.blobs.push_back({.name = "scale-sets", .bytes = Pack(model.sets), .required = 0});
  if (!model.certificate.empty())
    file.blobs.push_back({.name = "certificate", .bytes = model.certificate, .required = 0});
  return file;
}

std::string Write(const EtmModel& model) { return Write(FileOf(model)); }

int RawTables::U16(uint16_t value) {
  Put(bytes, value);
  return at() - 2;
}

int RawTables::U32(uint32_t value) {
  Put(bytes, value);
  return at() - 4;
}

int RawTables::Text(const std::string& text) {
  bytes += text;
  return at() - static_cast<int>(text.size());
}

int RawTables::Table(const std::vector<bool>& fields) {
  AlignTo(4);
  const int layout = at();
  U16(static_cast<uint16_t>(4 + 2 * fields.size()));
  const int table_bytes = U16(0);
  uint16_t offset = 4;
  for (bool there : fields) {
    U16(there ? offset : 0);
    if (there) offset = static_cast<uint16_t>(offset + 4);
  }
  std::memcpy(bytes.data() + table_bytes, &offset, 2);
  AlignTo(4);
  last_table = U32(static_cast<uint32_t>(at() - layout));
  for (int i = 4; i < offset; i += 4) U32(0);
  return last_table + 4;
}

void RawTables::AlignTo(int alignment, int rest) {
  while (at() % alignment != rest) bytes += '\0';
}

void RawTables::Point(int from, int to) {
  const uint32_t offset = static_cast<uint32_t>(to - from);
  std::memcpy(bytes.data() + from, &offset, 4);
}

}  // namespace evoq::craft
