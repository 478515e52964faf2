#include <algorithm>
#include <cstring>

#include "base/early_parts.h"
#include "base/math.h"
#include "base/output_file.h"
#include "graph/weight_bits.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_size.h"
#include "program/etm_tables.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

namespace fbs = flatbuffers;
using fbs::FlatBufferBuilder;
using fbs::Offset;

// Below this, weights are aligned to 8 bytes and compressed: a file of a few kilobytes is not worth
// mapping.
constexpr int64_t kSmallWeights = 64 << 10;

// The blob "weights": the bytes of constants and of long scale arrays, one after the other.
class WeightsBlob {
 public:
  explicit WeightsBlob(int64_t alignment) : alignment_(alignment) {}

  // The offset at which the bytes stand. They must outlive the writing.
  int64_t Add(std::span<const std::byte> bytes) {
    static constexpr std::byte kZeros[EarlyParts::kAlignment] = {};
    const int64_t at = RoundUp(size_, bytes.size() < 64 ? 8 : alignment_);
    if (at > size_) pieces_.push_back(std::span(kZeros).first(static_cast<size_t>(at - size_)));
    pieces_.push_back(bytes);
    size_ = at + static_cast<int64_t>(bytes.size());
    return at;
  }
  // Bytes that the blob keeps.
  int64_t Own(std::vector<std::byte> bytes) {
    owned_.push_back(std::move(bytes));
    return Add(owned_.back());
  }
  const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }

 private:
  int64_t alignment_;
  int64_t size_ = 0;
  std::vector<std::span<const std::byte>> pieces_;
  std::vector<std::vector<std::byte>> owned_;
};

class GraphWriter {
 public:
  GraphWriter(const Graph& graph, WeightsBlob& weights, FlatBufferBuilder& builder)
      : graph_(graph), weights_(weights), builder_(builder) {
    for (NodeId id : graph.order()) {
      const int bits = WeightBitsOf(graph.node(id));
      if (bits < 8 && graph.node(id).input(1).valid()) narrow_[graph.node(id).input(1)] = bits;
    }
  }

  // Packed constants that are not small come first in the weights, as nodes come that read them:
  // who packs, node by node, can write them at once (base/early_parts.h).
  void LeadWithPacked();
  Offset<fb::Graph> Write();
  Offset<fb::ScaleSets> Write(const std::vector<ScaleSet>& sets);

 private:
  Offset<fb::Quant> Write(DType dtype, const QuantParams& q);
  // `sizes`: whether the dimensions are written; those of quantized intermediate values are
  // inferred.
  Offset<fb::Type> Write(const TensorType& type, bool sizes);
  // `bits` below 8: those that hold the numbers of an int8 constant.
  Offset<fb::Constant> Write(const Tensor& constant, int bits = 8);
  Offset<fb::Constant> ConstantAt(int64_t offset, const Tensor& constant);
  Offset<fb::Attr> Write(const std::string& name, const AttrValue& value);
  Offset<fb::Value> Write(ValueId id);
  Offset<fb::Node> Write(const Node& node);
  Offset<fbs::Vector<Offset<fbs::String>>> Write(const std::vector<std::string>& strings);

  Offset<fbs::String> Text(const std::string& text) {
    return text.empty() ? 0 : builder_.CreateSharedString(text);
  }
  template <typename Id>
  Offset<fbs::Vector<int32_t>> Ids(const std::vector<Id>& ids) {
    std::vector<int32_t> indices;
    for (Id id : ids) indices.push_back(id.index);
    return builder_.CreateVector(indices);
  }

  const Graph& graph_;
  WeightsBlob& weights_;
  FlatBufferBuilder& builder_;
  std::map<ValueId, int> narrow_;       // weights of fewer than 8 bits
  std::map<ValueId, int64_t> leading_;  // where constants stand that are in the weights already
};

void GraphWriter::LeadWithPacked() {
  for (NodeId id : graph_.order()) {
    for (ValueId input : graph_.node(id).inputs) {
      if (!input.valid() || narrow_.contains(input) || leading_.contains(input)) continue;
      const Tensor& constant = graph_.value(input).constant;
      if (!TakesPages(constant) || constant.layout().empty()) continue;
      leading_[input] = weights_.Add({constant.raw(), constant.bytes()});
    }
  }
}

// The scales as float16, where each is such a number; else nothing.
std::vector<std::byte> AsHalves(std::span<const float> scales) {
  std::vector<uint16_t> halves;
  halves.reserve(scales.size());
  for (float scale : scales) {
    halves.push_back(FloatToHalf(scale));
    if (HalfToFloat(halves.back()) != scale) return {};
  }
  const auto bytes = std::as_bytes(std::span(halves));
  return {bytes.begin(), bytes.end()};
}

// The same as float8e8m0.
std::vector<std::byte> AsExponents(std::span<const float> scales) {
  constexpr DType kType = DType::kFloat8E8M0;
  std::vector<std::byte> exponents;
  exponents.reserve(scales.size());
  for (float scale : scales) {
    const uint8_t bits = FloatToTinyFloat(kType, scale);
    if (TinyFloatToFloat(kType, bits) != scale) return {};
    exponents.push_back(static_cast<std::byte>(bits));
  }
  return exponents;
}

// The zero points in `bits` each.
std::vector<std::byte> AsBits(std::span<const int32_t> zeros, int bits) {
  std::vector<std::byte> packed(CeilDiv(zeros.size() * bits, size_t{8}));
  for (size_t i = 0; i < zeros.size(); ++i)
    SetPackedBits(packed.data(), static_cast<int64_t>(i), bits, zeros[i]);
  return packed;
}

Offset<fb::Quant> GraphWriter::Write(DType dtype, const QuantParams& q) {
  if (q.inside) {
    fb::QuantBuilder quant(builder_);
    quant.add_scale_count(0);
    quant.add_zero(q.inside->zero);
    quant.add_axis(q.axis);
    quant.add_block(q.block);
    quant.add_inside(q.inside->half_scales ? 1 : 2);
    quant.add_inside_zeros(q.inside->zeros);
    return quant.Finish();
  }
  const bool blocked = q.block != 0;
  const bool same_zero = std::all_of(q.zero_points.begin(), q.zero_points.end(),
                                     [&](int z) { return z == q.zero_points[0]; });
  const bool packed_zeros = blocked && !same_zero && DTypeBits(dtype) <= 8;
  Offset<fbs::Vector<int32_t>> zeros = 0;
  if (!same_zero && !packed_zeros) zeros = builder_.CreateVector(q.zero_points);
  fb::QuantBuilder quant(builder_);
  std::vector<std::byte> exponents = blocked ? AsExponents(q.scales) : std::vector<std::byte>(),
                         halves = blocked && exponents.empty() ? AsHalves(q.scales)
                                                               : std::vector<std::byte>();
  const auto count = static_cast<uint32_t>(q.scales.size());
  if (!exponents.empty()) {
    quant.add_exponent_scale_count(count);
    quant.add_exponent_scales_offset(static_cast<uint64_t>(weights_.Own(std::move(exponents))));
    quant.add_scale_count(0);
  } else if (!halves.empty()) {
    quant.add_half_scale_count(count);
    quant.add_half_scales_offset(static_cast<uint64_t>(weights_.Own(std::move(halves))));
    quant.add_scale_count(0);
  } else if (count == 1) {
    quant.add_scale(q.scales[0]);
  } else {
    quant.add_scales_offset(
        static_cast<uint64_t>(weights_.Add(std::as_bytes(std::span(q.scales)))));
    quant.add_scale_count(count);
  }
  if (same_zero) quant.add_zero(q.zero_points[0]);
  if (packed_zeros) {
    quant.add_packed_zeros(true);
    quant.add_packed_zeros_offset(
        static_cast<uint64_t>(weights_.Own(AsBits(q.zero_points, DTypeBits(dtype)))));
  } else if (!same_zero) {
    quant.add_zeros(zeros);
  }
  quant.add_axis(q.axis);
  quant.add_block(q.block);
  return quant.Finish();
}

Offset<fb::Type> GraphWriter::Write(const TensorType& type, bool sizes) {
  std::vector<int64_t> dims;
  std::vector<std::string> symbols;
  bool symbolic = false;
  for (const Dim& d : type.shape.dims()) {
    dims.push_back(d.value);
    symbols.push_back(d.symbol);
    symbolic |= !d.symbol.empty();
  }
  const auto quant = type.quant ? Write(type.dtype, *type.quant) : Offset<fb::Quant>(0);
  const auto dims_offset = sizes ? builder_.CreateVector(dims) : Offset<fbs::Vector<int64_t>>(0);
  const auto symbols_offset =
      sizes && symbolic ? Write(symbols) : Offset<fbs::Vector<Offset<fbs::String>>>(0);
  return fb::CreateType(builder_, static_cast<int8_t>(type.dtype), sizes && type.shape.ranked(),
                        dims_offset, symbols_offset, quant, static_cast<int8_t>(type.kind));
}

Offset<fb::Constant> GraphWriter::ConstantAt(int64_t offset, const Tensor& constant) {
  return fb::CreateConstant(builder_, static_cast<uint64_t>(offset), constant.bytes(),
                            Text(constant.layout()));
}

Offset<fb::Constant> GraphWriter::Write(const Tensor& constant, int bits) {
  if (constant.dtype() == DType::kString) {
    const auto values = constant.values<std::string>();
    return fb::CreateConstant(builder_, 0, 0, 0,
                              Write(std::vector<std::string>(values.begin(), values.end())));
  }
  const std::span<const std::byte> bytes(constant.raw(), constant.bytes());
  const bool narrow = bits < 8 && constant.dtype() == DType::kInt8;
  if (const int factor = narrow ? NarrowFactor(bytes, bits) : 0; factor > 0) {
    std::vector<std::byte> packed(CeilDiv(bytes.size() * bits, size_t{8}));
    for (size_t i = 0; i < bytes.size(); ++i)
      SetPackedBits(packed.data(), static_cast<int64_t>(i), bits,
                    static_cast<int8_t>(bytes[i]) / factor);
    const size_t size = packed.size();
    const int64_t offset = weights_.Own(std::move(packed));
    return fb::CreateConstant(builder_, static_cast<uint64_t>(offset), size,
                              Text(constant.layout()), 0, static_cast<int8_t>(bits),
                              static_cast<int8_t>(factor));
  }
  return ConstantAt(weights_.Add(bytes), constant);
}

Offset<fbs::Vector<Offset<fbs::String>>> GraphWriter::Write(
    const std::vector<std::string>& strings) {
  std::vector<Offset<fbs::String>> offsets;
  for (const std::string& s : strings) offsets.push_back(builder_.CreateSharedString(s));
  return builder_.CreateVector(offsets);
}

Offset<fb::Attr> GraphWriter::Write(const std::string& name, const AttrValue& value) {
  const auto name_offset = Text(name);
  const auto kind =
      static_cast<fb::AttrKind>(value.index());  // the variant's order is the enumeration's
  const auto* text = std::get_if<std::string>(&value);
  const auto* ints = std::get_if<std::vector<int64_t>>(&value);
  const auto* floats = std::get_if<std::vector<float>>(&value);
  const auto* strings = std::get_if<std::vector<std::string>>(&value);
  const auto* tensor = std::get_if<Tensor>(&value);
  const auto s = text ? builder_.CreateSharedString(*text) : Offset<fbs::String>(0);
  const auto is = ints ? builder_.CreateVector(*ints) : Offset<fbs::Vector<int64_t>>(0);
  const auto fs = floats ? builder_.CreateVector(*floats) : Offset<fbs::Vector<float>>(0);
  const auto ss = strings ? Write(*strings) : Offset<fbs::Vector<Offset<fbs::String>>>(0);
  const auto type = tensor ? Write(tensor->type(), true) : Offset<fb::Type>(0);
  const auto data = tensor ? Write(*tensor) : Offset<fb::Constant>(0);
  const int64_t i = std::holds_alternative<int64_t>(value) ? std::get<int64_t>(value) : 0;
  const float f = std::holds_alternative<float>(value) ? std::get<float>(value) : 0;
  return fb::CreateAttr(builder_, name_offset, kind, i, f, s, is, fs, ss, type, data);
}

Offset<fb::Value> GraphWriter::Write(ValueId id) {
  const Value& value = graph_.value(id);
  const bool is_input = graph_.IsInput(id);
  const bool given = is_input || value.is_constant();
  const auto name = builder_.CreateSharedString(value.name);
  const auto type =
      given || value.type.quantized() ? Write(value.type, given) : Offset<fb::Type>(0);
  const auto narrow = narrow_.find(id);
  const auto leading = leading_.find(id);
  const auto constant = leading != leading_.end() ? ConstantAt(leading->second, value.constant)
                        : value.is_constant()
                            ? Write(value.constant, narrow == narrow_.end() ? 8 : narrow->second)
                            : Offset<fb::Constant>(0);
  return fb::CreateValue(builder_, name, type, constant);
}

Offset<fb::Node> GraphWriter::Write(const Node& node) {
  std::vector<Offset<fb::Attr>> attrs;
  for (const auto& [name, value] : node.attrs) attrs.push_back(Write(name, value));
  const auto op = Text(node.op), domain = Text(node.domain), name = Text(node.name);
  const auto attrs_offset = attrs.empty() ? 0 : builder_.CreateVector(attrs);
  std::vector<Offset<fb::Graph>> bodies;
  for (const auto& body : node.bodies)
    bodies.push_back(GraphWriter(*body, weights_, builder_).Write());
  const auto bodies_offset = bodies.empty() ? 0 : builder_.CreateVector(bodies);
  return fb::CreateNode(builder_, op, domain, name, attrs_offset, Ids(node.inputs),
                        Ids(node.outputs), bodies_offset);
}

Offset<fb::Graph> GraphWriter::Write() {
  std::vector<Offset<fb::Value>> values;
  for (int i = 0; i < graph_.value_count(); ++i) values.push_back(Write(ValueId{i}));
  std::vector<Offset<fb::Node>> nodes;
  for (NodeId id : graph_.order()) nodes.push_back(Write(graph_.node(id)));
  std::vector<Offset<fb::Fact>> facts;
  for (const auto& [key, value] : graph_.metadata)
    facts.push_back(fb::CreateFact(builder_, builder_.CreateSharedString(key),
                                   builder_.CreateSharedString(value)));
  const auto name = Text(graph_.name);
  const auto facts_offset = facts.empty() ? 0 : builder_.CreateVector(facts);
  const auto values_offset = builder_.CreateVector(values);
  const auto nodes_offset = builder_.CreateVector(nodes);
  const auto inputs = Ids(graph_.inputs());
  const auto outputs = Ids(graph_.outputs());
  return fb::CreateGraph(builder_, name, facts_offset, values_offset, nodes_offset, inputs,
                         outputs);
}

Offset<fb::ScaleSets> GraphWriter::Write(const std::vector<ScaleSet>& sets) {
  std::vector<Offset<fb::ScaleSet>> set_offsets;
  for (const ScaleSet& set : sets) {
    std::vector<Offset<fb::ScaleChange>> changes;
    for (const ScaleChange& change : set.changes) {
      const ValueId id = graph_.FindValue(change.value);
      if (!id.valid()) continue;  // nothing reads it
      const auto quant =
          change.quant ? Write(graph_.value(id).type.dtype, *change.quant) : Offset<fb::Quant>(0);
      const auto constant =
          change.constant.defined() ? Write(change.constant) : Offset<fb::Constant>(0);
      changes.push_back(fb::CreateScaleChange(builder_, id.index, quant, constant));
    }
    set_offsets.push_back(
        fb::CreateScaleSet(builder_, Text(set.name), set.samples, builder_.CreateVector(changes)));
  }
  return fb::CreateScaleSets(builder_, builder_.CreateVector(set_offsets));
}

std::vector<std::byte> BytesOf(const FlatBufferBuilder& builder) {
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

std::vector<std::byte> WriteGraph(const Graph& graph, WeightsBlob& weights) {
  FlatBufferBuilder builder;
  GraphWriter writer(graph, weights, builder);
  writer.LeadWithPacked();
  builder.Finish(writer.Write());
  return BytesOf(builder);
}

std::vector<std::byte> WriteSets(const Graph& graph, WeightsBlob& weights,
                                 const std::vector<ScaleSet>& sets) {
  FlatBufferBuilder builder;
  builder.Finish(GraphWriter(graph, weights, builder).Write(sets));
  return BytesOf(builder);
}

std::vector<std::byte> WritePlans(const std::vector<Plan>& plans) {
  FlatBufferBuilder builder;
  const auto text = [&](const std::string& s) {
    return s.empty() ? Offset<fbs::String>(0) : builder.CreateSharedString(s);
  };
  const auto list = [&](const std::vector<Decision::Rejected>& from)
      -> Offset<fbs::Vector<Offset<fb::Rejected>>> {
    std::vector<Offset<fb::Rejected>> to;
    for (const auto& r : from)
      to.push_back(fb::CreateRejected(builder, text(r.kernel), text(r.reason.code),
                                      text(r.reason.sentence)));
    return to.empty() ? 0 : builder.CreateVector(to);
  };
  std::vector<Offset<fb::Plan>> plan_offsets;
  for (const Plan& plan : plans) {
    std::vector<Offset<fb::InputShape>> shapes;
    for (const auto& [name, sizes] : plan.shapes)
      shapes.push_back(fb::CreateInputShape(builder, text(name), builder.CreateVector(sizes)));
    std::vector<Offset<fb::Decision>> decisions;
    for (const auto& [node, d] : plan.decisions) {
      decisions.push_back(fb::CreateDecision(
          builder, text(node), text(d.kernel), text(PrecisionName(d.precision)), list(d.rejected),
          text(d.float_reason.code), text(d.float_reason.sentence)));
    }
    std::vector<Offset<fb::Tuning>> tunings;
    for (const Tuning& tuning : plan.tunings) {
      std::vector<Offset<fb::StepTuning>> steps;
      for (const auto& [node, s] : tuning.steps)
        steps.push_back(
            fb::CreateStepTuning(builder, text(node), text(s.variant), s.threads, list(s.slower)));
      tunings.push_back(fb::CreateTuning(builder, text(tuning.machine), tuning.threads,
                                         builder.CreateVector(steps)));
    }
    const auto tunings_offset = tunings.empty() ? 0 : builder.CreateVector(tunings);
    plan_offsets.push_back(fb::CreatePlan(builder, builder.CreateVector(shapes),
                                          builder.CreateVector(decisions), tunings_offset));
  }
  builder.Finish(fb::CreatePlans(builder, builder.CreateVector(plan_offsets)));
  return BytesOf(builder);
}

// The graph without what nothing reads, in subgraphs too: rewriting leaves constants behind.
Graph WithoutTheDead(Graph graph) {
  for (NodeId id : graph.order()) {
    for (size_t i = 0; i < graph.node(id).bodies.size(); ++i)
      graph.SetBody(id, i,
                    std::make_shared<const Graph>(WithoutTheDead(*graph.node(id).bodies[i])));
  }
  graph.RemoveDeadNodes();
  return graph.Compacted();
}

int64_t ConstantBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i)
    bytes += static_cast<int64_t>(graph.value(ValueId{i}).constant.bytes());
  return bytes;
}

// Calls use(blobs) with the blobs of the model's file.
template <typename Use>
auto WithBlobs(const Model& model, const Use& use) {
  const Graph live = WithoutTheDead(model.graph);
  const bool small = ConstantBytes(live) < kSmallWeights;
  WeightsBlob weights(small ? 8 : EarlyParts::kAlignment);
  // Offsets in the tables refer to `weights`, which GraphWriter fills.
  const std::vector<std::byte> graph = WriteGraph(live, weights);
  std::vector<std::byte> sets;
  if (!model.sets.empty()) sets = WriteSets(live, weights, model.sets);
  const std::vector<std::byte> plans = WritePlans(model.plans);
  std::vector<BlobSource> blobs = {
      {.name = "weights",
       .pieces = weights.pieces(),
       .alignment = small ? 8 : EarlyParts::kBegin,
       .compress = small},
      {.name = "graph", .pieces = {graph}, .alignment = 8, .compress = true},
      {.name = "plans", .pieces = {plans}, .alignment = 8, .compress = true, .required = false},
  };
  if (!model.sets.empty())
    blobs.push_back({.name = kScaleSetsBlob,
                     .pieces = {sets},
                     .alignment = 8,
                     .compress = true,
                     .required = false});
  if (!model.certificate.empty()) {
    blobs.push_back({.name = "certificate",
                     .pieces = {std::as_bytes(std::span(model.certificate))},
                     .compress = true,
                     .required = false});
  }
  return use(std::span<const BlobSource>(blobs));
}

}  // namespace

Status WriteEtm(const Model& model, const std::string& path) {
  return WithBlobs(model,
                   [&](std::span<const BlobSource> blobs) { return WriteContainer(path, blobs); });
}

int64_t EtmBytes(const Model& model) {
  return WithBlobs(model, [](std::span<const BlobSource> blobs) { return ContainerBytes(blobs); });
}

int64_t WrittenEtmBytes(const Model& model, const std::string& path) {
  const int64_t bytes = WrittenBytes(path);
  return bytes > 0 ? bytes : EtmBytes(model);
}

}  // namespace evoq
