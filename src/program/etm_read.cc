#include <algorithm>
#include <cstring>
#include <set>

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/layout.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_tables.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

constexpr int kMaxRank = 32;
constexpr int kMaxNesting = 8;  // of subgraphs

std::string Text(const flatbuffers::String* s) { return EtmText(s); }

template <typename T>
uint32_t Count(const flatbuffers::Vector<T>* v) {
  return EtmCount(v);
}

class GraphReader {
 public:
  GraphReader(const fb::Graph& from, Container::Bytes weights, Budget& budget, int depth = 0)
      : from_(from), weights_(std::move(weights)), budget_(budget), depth_(depth) {}

  Result<Graph> Read();
  // The scale sets of the graph that this table gave.
  Result<std::vector<ScaleSet>> Read(const fb::ScaleSets& from, const Graph& graph) const;

 private:
  Result<std::span<const std::byte>> Range(uint64_t offset, uint64_t bytes) const;
  Result<std::vector<float>> ReadScales(const fb::Quant& from) const;
  Result<QuantParams> Read(DType dtype, const fb::Quant& from) const;
  Result<TensorType> Read(const fb::Type& from) const;
  Result<Tensor> Read(const TensorType& type, const fb::Constant& from) const;
  Result<Tensor> ReadNarrow(const TensorType& type, const std::string& layout, int64_t expected,
                            std::span<const std::byte> stored, const fb::Constant& from) const;
  Result<AttrValue> Read(const fb::Attr& from) const;
  Status ReadValue(const fb::Value& from, bool is_input);
  Status ReadNode(const fb::Node& from);
  Result<ScaleChange> Read(const fb::ScaleChange& from, const Graph& graph) const;
  Result<std::vector<ValueId>> Ids(const flatbuffers::Vector<int32_t>* from, bool optional) const;

  const fb::Graph& from_;
  Container::Bytes weights_;
  // Of the file. VerifyTables drew what the tables hold; this draws what they point to.
  Budget& budget_;
  int depth_;                   // of subgraphs around it
  std::vector<bool> is_input_;  // by value
  Graph graph_;
};

Result<std::span<const std::byte>> GraphReader::Range(uint64_t offset, uint64_t bytes) const {
  const uint64_t size = weights_.data.size();
  if (offset > size || bytes > size - offset)
    return InvalidInput("bytes {}..+{} lie outside the {} bytes of the blob 'weights'", offset,
                        bytes, size);
  return weights_.data.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

Result<std::vector<float>> GraphReader::ReadScales(const fb::Quant& from) const {
  const uint32_t halves = from.half_scale_count(), exponents = from.exponent_scale_count();
  if ((halves != 0) + (exponents != 0) + (from.scale_count() != 0) > 1)
    return InvalidInput("{} scales, {} float16 scales and {} float8e8m0 scales", from.scale_count(),
                        halves, exponents);
  const uint32_t count = halves + exponents + from.scale_count();
  // Of the short ones there are as many as the blob has bytes for.
  const bool is_short = halves + exponents != 0;
  if (count == 0 || (!is_short && count > kMaxEtmItems)) return InvalidInput("{} scales", count);
  EVOQ_TRY(budget_.TakeMemory(int64_t{count} * 8, "scales"));  // and zero points
  EVOQ_TRY(budget_.TakeWork(int64_t{count} * 4, "scales"));
  std::vector<float> scales;
  if (halves != 0) {
    EVOQ_ASSIGN(const auto bytes,
                Range(from.half_scales_offset(), uint64_t{count} * sizeof(uint16_t)));
    scales.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + i * sizeof(half), sizeof(half));
      scales[i] = HalfToFloat(half);
    }
  } else if (exponents != 0) {
    EVOQ_ASSIGN(const auto bytes, Range(from.exponent_scales_offset(), count));
    scales.resize(count);
    for (uint32_t i = 0; i < count; ++i)
      scales[i] = TinyFloatToFloat(DType::kFloat8E8M0, static_cast<uint8_t>(bytes[i]));
  } else if (count == 1) {
    scales = {from.scale()};
  } else {
    EVOQ_ASSIGN(const auto bytes, Range(from.scales_offset(), uint64_t{count} * sizeof(float)));
    scales.resize(count);
    std::memcpy(scales.data(), bytes.data(), bytes.size());
  }
  return scales;
}

// Scales that lie inside of a constant: ValidateQuant and the constant's layout check the rest.
Result<QuantParams> ReadInside(const fb::Quant& from) {
  if (from.inside() < 1 || from.inside() > 2)
    return InvalidInput("scales inside of kind {}, expected 1 or 2", from.inside());
  if (from.scale_count() + from.half_scale_count() + from.exponent_scale_count() != 0 ||
      from.zeros() || from.packed_zeros())
    return InvalidInput("scales inside and beside a constant");
  QuantParams q;
  q.axis = from.axis();
  q.block = from.block();
  q.inside = QuantParams::Inside{from.inside() == 1, from.inside_zeros(), from.zero()};
  return q;
}

Result<QuantParams> GraphReader::Read(DType dtype, const fb::Quant& from) const {
  if (from.inside() != 0) return ReadInside(from);
  QuantParams q;
  EVOQ_ASSIGN(q.scales, ReadScales(from));
  const size_t count = q.scales.size();
  q.zero_points.assign(count, from.zero());
  if (from.zeros()) {
    if (from.zeros()->size() != count)
      return InvalidInput("{} zero points for {} scales", from.zeros()->size(), count);
    q.zero_points.assign(from.zeros()->begin(), from.zeros()->end());
  }
  if (from.packed_zeros()) {
    const int bits = DTypeBits(dtype);
    if (!IsInteger(dtype) || bits > 8 || from.zeros())
      return InvalidInput("packed zero points of {}{}", DTypeName(dtype),
                          from.zeros() ? " beside others" : "");
    EVOQ_ASSIGN(const auto bytes,
                Range(from.packed_zeros_offset(), CeilDiv(uint64_t{count} * bits, uint64_t{8})));
    for (size_t i = 0; i < count; ++i) {
      const int32_t zero = PackedBits(bytes.data(), static_cast<int64_t>(i), bits);
      q.zero_points[i] = zero > IntegerMax(dtype) ? zero - (1 << bits) : zero;
    }
  }
  q.axis = from.axis();
  q.block = from.block();
  if (q.axis < -1 || q.axis >= kMaxRank || q.block < 0)
    return InvalidInput("quantization axis {}, block {}", q.axis, q.block);
  return q;
}

bool HasScalesInside(const TensorType& type) { return type.quantized() && type.quant->inside; }

Result<TensorType> GraphReader::Read(const fb::Type& from) const {
  const auto dtype = DTypeFromEtm(from.dtype());
  if (!dtype) return InvalidInput("element type number {}", from.dtype());
  TensorType type(*dtype, Shape::UnknownRank());
  if (from.kind() < 0 || from.kind() > static_cast<int>(ValueKind::kOptionalSequence))
    return InvalidInput("value kind {}", from.kind());
  type.kind = static_cast<ValueKind>(from.kind());
  if (from.ranked()) {
    const uint32_t rank = Count(from.dims());
    if (rank > kMaxRank) return InvalidInput("rank {}, expected at most {}", rank, kMaxRank);
    if (from.symbols() && from.symbols()->size() != rank)
      return InvalidInput("{} symbols for rank {}", from.symbols()->size(), rank);
    std::vector<Dim> dims(rank);
    for (uint32_t i = 0; i < rank; ++i) {
      dims[i].value = from.dims()->Get(i);
      if (dims[i].value < -1) return InvalidInput("a dimension of {}", dims[i].value);
      if (from.symbols() && dims[i].value < 0) dims[i].symbol = Text(from.symbols()->Get(i));
    }
    type.shape = Shape(std::move(dims));
  }
  if (from.quant()) {
    EVOQ_ASSIGN(QuantParams q, Read(*dtype, *from.quant()));
    type.quant = std::make_shared<const QuantParams>(std::move(q));
    EVOQ_TRY(ValidateQuant(type));
  }
  return type;
}

Result<Tensor> ReadStrings(const TensorType& type, const fb::Constant& from) {
  const auto* strings = from.strings();
  if (!type.is_tensor() || type.quantized() ||
      type.bytes() != int64_t{Count(strings)} * static_cast<int64_t>(sizeof(std::string)))
    return InvalidInput("{} strings for {}", Count(strings), type.ToString());
  std::vector<std::string> values;
  for (uint32_t i = 0; i < Count(strings); ++i) values.push_back(Text(strings->Get(i)));
  return Tensor::FromValues(type.shape, values);
}

// int8 numbers that are stored in fewer bits, of a tensor of `expected` bytes.
Result<Tensor> GraphReader::ReadNarrow(const TensorType& type, const std::string& layout,
                                       int64_t expected, std::span<const std::byte> stored,
                                       const fb::Constant& from) const {
  const int bits = from.bits(), factor = from.factor();
  const bool power = factor > 0 && (factor & (factor - 1)) == 0;
  if ((bits != 4 && bits != 2) || !power || (factor << (bits - 1)) > 128 ||
      type.dtype != DType::kInt8)
    return InvalidInput("{} in {} bits times {}, expected int8 in 4 or 2 bits times a power of two",
                        type.ToString(), bits, factor);
  if (static_cast<int64_t>(stored.size()) != (expected * bits + 7) / 8)
    return InvalidInput("{} bytes for {} in {} bits, expected {}", stored.size(), type.ToString(),
                        bits, (expected * bits + 7) / 8);
  EVOQ_TRY(budget_.TakeMemory(expected, "weights of few bits"));
  std::vector<std::byte> bytes(static_cast<size_t>(expected));
  for (int64_t i = 0; i < expected; ++i) {
    const int unsigned_bits = PackedBits(stored.data(), i, bits);
    const int number = unsigned_bits - (unsigned_bits >> (bits - 1) << bits);
    bytes[static_cast<size_t>(i)] = static_cast<std::byte>(number * factor & 0xff);
  }
  if (!layout.empty()) return Tensor::Packed(type, layout, std::move(bytes));
  Tensor tensor = Tensor::Allocate(type);
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_raw());
  return tensor;
}

Result<Tensor> GraphReader::Read(const TensorType& type, const fb::Constant& from) const {
  if (type.dtype == DType::kString) return ReadStrings(type, from);
  EVOQ_ASSIGN(const auto bytes, Range(from.offset(), from.bytes()));
  const auto plain = type.bytes();
  if (!plain)
    return InvalidInput("a constant of type {}, expected a static shape", type.ToString());
  const std::string layout = Text(from.layout());
  int64_t expected = *plain;
  const LayoutDef* def = nullptr;
  if (!layout.empty()) {
    def = FindLayout(layout);
    if (def == nullptr) return InvalidInput("unknown tensor layout '{}'", layout);
    EVOQ_ASSIGN(expected, def->bytes(type));
  }
  if (HasScalesInside(type) && (def == nullptr || !def->holds_scales()))
    return InvalidInput("scales inside of {}, which holds none",
                        layout.empty() ? "a plain constant" : layout);
  if (from.bits() != 0) return ReadNarrow(type, layout, expected, bytes, from);
  // Of a layout whose `check` looks at more than scales, `bytes` is the most that it takes.
  const bool fits = def != nullptr && def->check != nullptr && !def->holds_scales()
                        ? static_cast<int64_t>(bytes.size()) <= expected
                        : static_cast<int64_t>(bytes.size()) == expected;
  if (!fits)
    return InvalidInput("{} bytes for {}{}{}, expected {}", bytes.size(), type.ToString(),
                        layout.empty() ? "" : " in ", layout, expected);
  if (type.dtype == DType::kBool) {
    EVOQ_TRY(budget_.TakeWork(static_cast<int64_t>(bytes.size()), "bools"));
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      return InvalidInput("a byte of {} is neither 0 nor 1", type.ToString());
  }
  static constexpr std::byte kEmpty{};
  const std::byte* data = bytes.empty() ? &kEmpty : bytes.data();
  const bool aligned = reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
  // Long constants stand on cache lines and are read where they are; short ones, and all of a small
  // file, are copied.
  if (!aligned)
    EVOQ_TRY(budget_.TakeMemory(static_cast<int64_t>(bytes.size()), "constants that are copied"));
  if (def != nullptr) {
    Tensor packed = aligned ? Tensor::PackedView(type, layout, {data, bytes.size()}, weights_.owner)
                            : Tensor::Packed(type, layout, {bytes.begin(), bytes.end()});
    if (def->check != nullptr) {
      EVOQ_TRY(budget_.TakeWork(static_cast<int64_t>(bytes.size()), "scales inside of constants"));
      EVOQ_TRY(def->check(packed));
    }
    return packed;
  }
  const Tensor view = Tensor::View(type, data, weights_.owner);
  return aligned || bytes.empty() ? view : view.Clone();
}

Result<AttrValue> GraphReader::Read(const fb::Attr& from) const {
  switch (from.kind()) {
    case fb::AttrKind::Int: return AttrValue(from.i());
    case fb::AttrKind::Float: return AttrValue(from.f());
    case fb::AttrKind::String: return AttrValue(Text(from.s()));
    case fb::AttrKind::Ints: {
      std::vector<int64_t> v;
      if (from.ints()) v.assign(from.ints()->begin(), from.ints()->end());
      return AttrValue(std::move(v));
    }
    case fb::AttrKind::Floats: {
      std::vector<float> v;
      if (from.floats()) v.assign(from.floats()->begin(), from.floats()->end());
      return AttrValue(std::move(v));
    }
    case fb::AttrKind::Strings: {
      std::vector<std::string> v;
      for (uint32_t i = 0; i < Count(from.strings()); ++i)
        v.push_back(Text(from.strings()->Get(i)));
      return AttrValue(std::move(v));
    }
    case fb::AttrKind::Tensor: {
      if (!from.tensor() || !from.tensor_type())
        return InvalidInput("a tensor attribute without a tensor");
      EVOQ_ASSIGN(const TensorType type, Read(*from.tensor_type()));
      EVOQ_ASSIGN(Tensor tensor, Read(type, *from.tensor()));
      return AttrValue(std::move(tensor));
    }
  }
  return InvalidInput("attribute kind {}", static_cast<int>(from.kind()));
}

Status GraphReader::ReadValue(const fb::Value& from, bool is_input) {
  const std::string name = Text(from.name());
  const auto in_value = [&](auto result) {
    return WithContext(std::move(result), "value " + name);
  };
  if (graph_.FindValue(name).valid()) return InvalidInput("value {} appears twice", name);
  TensorType type;
  if (from.type()) {
    EVOQ_ASSIGN(type, in_value(Read(*from.type())));
  }
  if (HasScalesInside(type) && !from.constant())
    return InvalidInput("value {}: scales inside of a value that is no constant", name);
  if (from.constant()) {
    if (is_input || !from.type())
      return InvalidInput("value {}: a constant must have a type and not be an input", name);
    EVOQ_ASSIGN(Tensor tensor, in_value(Read(type, *from.constant())));
    graph_.AddConstant(name, std::move(tensor));
  } else if (is_input) {
    graph_.AddInput(name, std::move(type));
  } else {
    graph_.AddValue(name, std::move(type));
  }
  return {};
}

Result<std::vector<ValueId>> GraphReader::Ids(const flatbuffers::Vector<int32_t>* from,
                                              bool optional) const {
  std::vector<ValueId> ids;
  for (uint32_t i = 0; i < Count(from); ++i) {
    const int32_t index = from->Get(i);
    if (index < (optional ? -1 : 0) || index >= graph_.value_count())
      return InvalidInput("value index {}, expected one below {}", index, graph_.value_count());
    ids.push_back(ValueId{index});
  }
  return ids;
}

Status GraphReader::ReadNode(const fb::Node& from) {
  Node node;
  node.op = Text(from.op());
  node.domain = Text(from.domain());
  node.name = Text(from.name());
  if (node.op.empty() || node.name.empty()) return InvalidInput("a node without operator or name");
  const std::string label = fmt::format("node {} ({})", node.name, node.op);
  for (uint32_t i = 0; i < Count(from.attrs()); ++i) {
    const fb::Attr* attr = from.attrs()->Get(i);
    EVOQ_ASSIGN(AttrValue value,
                WithContext(Read(*attr), label + ": attribute " + Text(attr->name())));
    node.attrs.Set(Text(attr->name()), std::move(value));
  }
  if (Count(from.bodies()) > 2 || (depth_ >= kMaxNesting && Count(from.bodies()) > 0))
    return InvalidInput("{}: {} subgraphs at depth {}", label, Count(from.bodies()), depth_);
  for (uint32_t i = 0; i < Count(from.bodies()); ++i) {
    EVOQ_ASSIGN(
        Graph body,
        WithContext(GraphReader(*from.bodies()->Get(i), weights_, budget_, depth_ + 1).Read(),
                    label));
    node.bodies.push_back(std::make_shared<const Graph>(std::move(body)));
  }
  EVOQ_ASSIGN(node.inputs, WithContext(Ids(from.inputs(), true), label));
  EVOQ_ASSIGN(node.outputs, WithContext(Ids(from.outputs(), true), label));
  std::set<ValueId> seen;
  for (const ValueId id : node.outputs) {
    if (!id.valid()) continue;
    const Value& v = graph_.value(id);
    if (v.is_constant() || v.producer.valid() || is_input_[id.index] || !seen.insert(id).second)
      return InvalidInput("{}: output {} is already an input, a constant or another node's output",
                          label, v.name);
  }
  graph_.AddNode(std::move(node));
  return {};
}

Result<Graph> GraphReader::Read() {
  const uint32_t count = Count(from_.values());
  if (count > kMaxEtmItems || Count(from_.nodes()) > kMaxEtmItems)
    return InvalidInput("{} values", count);
  is_input_.resize(count);
  for (uint32_t i = 0; i < Count(from_.inputs()); ++i) {
    const int32_t index = from_.inputs()->Get(i);
    if (index < 0 || static_cast<uint32_t>(index) >= count || is_input_[index])
      return InvalidInput("input index {}", index);
    is_input_[index] = true;
  }
  graph_.name = Text(from_.name());
  for (uint32_t i = 0; i < Count(from_.metadata()); ++i)
    graph_.metadata[Text(from_.metadata()->Get(i)->key())] =
        Text(from_.metadata()->Get(i)->value());
  for (uint32_t i = 0; i < count; ++i) EVOQ_TRY(ReadValue(*from_.values()->Get(i), is_input_[i]));
  for (uint32_t i = 0; i < Count(from_.nodes()); ++i) EVOQ_TRY(ReadNode(*from_.nodes()->Get(i)));
  EVOQ_ASSIGN(const auto outputs, Ids(from_.outputs(), false));
  for (ValueId id : outputs) {
    const Value& v = graph_.value(id);
    if (!v.is_constant() && !v.producer.valid() && !graph_.IsInput(id))
      return InvalidInput("output {} is not computed", v.name);
    graph_.MarkOutput(id);
  }
  EVOQ_TRY(graph_.Sort());
  for (NodeId id : graph_.order()) {
    for (ValueId in : graph_.node(id).inputs) {
      if (!in.valid()) continue;
      const Value& v = graph_.value(in);
      if (!v.is_constant() && !v.producer.valid() && !graph_.IsInput(in))
        return InvalidInput("node {}: input {} is not computed", graph_.node(id).name, v.name);
    }
  }
  EVOQ_TRY(graph_.Verify());
  return std::move(graph_);
}

Result<ScaleChange> GraphReader::Read(const fb::ScaleChange& from, const Graph& graph) const {
  if (from.value() < 0 || from.value() >= graph.value_count())
    return InvalidInput("value index {}, expected one below {}", from.value(), graph.value_count());
  const Value& value = graph.value(ValueId{from.value()});
  TensorType type = value.type;
  type.quant = nullptr;
  const auto read = [&]() -> Result<ScaleChange> {
    if (from.quant()) {
      EVOQ_ASSIGN(QuantParams q, Read(type.dtype, *from.quant()));
      type.quant = std::make_shared<const QuantParams>(std::move(q));
      EVOQ_TRY(ValidateQuant(type));
    }
    ScaleChange change{value.name, type.quant, {}};
    if (from.constant()) {
      EVOQ_ASSIGN(change.constant, Read(type, *from.constant()));
    }
    return change;
  };
  return WithContext(read(), "value " + value.name);
}

Result<std::vector<ScaleSet>> GraphReader::Read(const fb::ScaleSets& from,
                                                const Graph& graph) const {
  std::vector<ScaleSet> sets;
  if (Count(from.sets()) > kMaxScaleSets)
    return InvalidInput("{} scale sets, expected at most {}", Count(from.sets()), kMaxScaleSets);
  for (uint32_t s = 0; s < Count(from.sets()); ++s) {
    const fb::ScaleSet& set = *from.sets()->Get(s);
    sets.push_back({Text(set.name()), set.samples(), {}});
    for (uint32_t i = 0; i < Count(set.changes()); ++i) {
      EVOQ_ASSIGN(ScaleChange change, WithContext(Read(*set.changes()->Get(i), graph),
                                                  "scale set " + Text(set.name())));
      sets.back().changes.push_back(std::move(change));
    }
  }
  EVOQ_TRY(CheckScaleSets(graph, sets));
  return sets;
}

Result<Model> ReadFrom(const Container& container, const std::string& path) {
  Budget budget = Budget::ForFile(container.file_bytes());
  const auto read = [&](const char* name) -> Result<Container::Bytes> {
    const BlobInfo* blob = container.Find(name);
    if (blob == nullptr) return InvalidInput("{}: the blob '{}' is missing", path, name);
    return container.Read(*blob, budget);
  };
  for (const BlobInfo& blob : container.blobs()) {
    if (blob.required && blob.name != "graph" && blob.name != "weights" && blob.name != "plans" &&
        blob.name != kScaleSetsBlob)
      return Unsupported("{}: needs the blob '{}', which this version of evoq does not know", path,
                         blob.name);
  }
  EVOQ_ASSIGN(const auto graph_bytes, read("graph"));
  EVOQ_ASSIGN(auto weights, read("weights"));
  EVOQ_ASSIGN(const fb::Graph* table,
              WithContext(VerifiedTable<fb::Graph>(graph_bytes.data, "graph", budget), path));
  Model model;
  GraphReader reader(*table, std::move(weights), budget);
  EVOQ_ASSIGN(model.graph, WithContext(reader.Read(), path));
  if (container.Find(kScaleSetsBlob) != nullptr) {
    EVOQ_ASSIGN(const auto set_bytes, read(kScaleSetsBlob));
    EVOQ_ASSIGN(
        const fb::ScaleSets* sets,
        WithContext(VerifiedTable<fb::ScaleSets>(set_bytes.data, kScaleSetsBlob, budget), path));
    EVOQ_ASSIGN(model.sets, WithContext(reader.Read(*sets, model.graph), path));
  }
  if (container.Find("plans") != nullptr) {
    EVOQ_ASSIGN(const auto plan_bytes, read("plans"));
    EVOQ_ASSIGN(const fb::Plans* plans,
                WithContext(VerifiedTable<fb::Plans>(plan_bytes.data, "plans", budget), path));
    model.plans = ReadPlans(*plans);
  }
  if (container.Find("certificate") != nullptr) {
    EVOQ_ASSIGN(const auto text, read("certificate"));
    model.certificate.assign(reinterpret_cast<const char*>(text.data.data()), text.data.size());
  }
  return model;
}

}  // namespace

Result<Model> ReadEtm(const std::string& path) {
  EVOQ_ASSIGN(const Container container, Container::Open(path));
  return ReadFrom(container, path);
}

Result<Model> ReadEtm(std::span<const std::byte> bytes, bool copy, const std::string& name) {
  if (bytes.data() == nullptr) return Fail(ErrorCode::kUsage, "the model's bytes are null");
  std::shared_ptr<const void> owner(std::shared_ptr<const void>(), bytes.data());  // the caller
  if (copy) {
    auto copied = std::make_shared<AlignedBuffer>(bytes.size());
    std::memcpy(copied->data(), bytes.data(), bytes.size());
    bytes = {copied->data(), bytes.size()};
    owner = std::move(copied);
  } else if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    return Fail(ErrorCode::kUsage,
                "the model's bytes begin at no multiple of {}, as those must that are not copied",
                kAlignment);
  }
  EVOQ_ASSIGN(const Container container, Container::Of(bytes, std::move(owner), name));
  return ReadFrom(container, name);
}

bool IsEtmFile(const std::string& path) {
  const auto file = MappedFile::Open(path);
  return file && IsEtm((*file)->bytes());
}

}  // namespace evoq
