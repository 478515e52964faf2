#include "encodings/resolve.h"

#include <algorithm>

#include "base/math.h"
#include "encodings/nearest.h"
#include "ops/op.h"
#include "passes/match.h"
#include "quant/plan.h"
#include "tensor/permute.h"

namespace evoq {
namespace {

constexpr size_t kNearest = 3;
constexpr size_t kMaxSearched = 50;  // names of which the nearest are looked for

// The integer type of so many bits; of constants also a wider one, which holds the same numbers.
std::optional<DType> TypeOfBits(int bits, bool is_signed, bool constant) {
  constexpr struct {
    int bits;
    DType with_sign, without;
  } kTypes[] = {{2, DType::kInt2, DType::kUint2},
                {4, DType::kInt4, DType::kUint4},
                {8, DType::kInt8, DType::kUint8},
                {16, DType::kInt16, DType::kUint16},
                {32, DType::kInt32, DType::kUint32}};
  for (const auto& type : kTypes) {
    if (type.bits == bits || (constant && bits < type.bits && type.bits <= 16))
      return is_signed ? type.with_sign : type.without;
  }
  return std::nullopt;
}

// What the optimized graph does with a constant.
struct Reading {
  bool weight = false, bias = false;
  int out_axis = -1, in_axis = -1;  // of a weight
};
Reading ReadingOf(const Graph& graph, ValueId constant) {
  Reading reading;
  const int rank = graph.value(constant).constant.shape().rank();
  for (NodeId user : graph.value(constant).users) {
    const Node& node = graph.node(user);
    reading.bias |= IsLinear(node) && node.input(2) == constant;
    const auto place = WeightPlaceOf(graph, node);
    if (!place || node.input(place->input) != constant) continue;
    reading.weight = true;
    reading.out_axis = place->axis;
    if (!IsLinear(node)) continue;
    const int in_axis = LinearFormOf(node)->in_axis;
    reading.in_axis = in_axis < 0 ? in_axis + rank : in_axis;
  }
  return reading;
}

// Why an entry is not used: a sentence, which is no error of the file.
using NotUsed = std::optional<std::string>;

class Resolver {
 public:
  Resolver(const Graph& original, const Graph& optimized)
      : original_(original), optimized_(optimized), lineage_(original, optimized) {}

  Result<ResolvedEncodings> Run(std::span<const Encoding> encodings) {
    // What was moved comes last: a tensor whose own name the graph has goes first.
    for (const bool moved : {false, true}) {
      for (const Encoding& e : encodings) {
        const auto links = lineage_.OfTensor(e.name);
        if (moved != (!links.empty() && links[0]->moved)) continue;
        auto resolved = Resolve(e, links);
        if (!resolved) return tl::unexpected(std::move(resolved.error()).WithContext(e.place));
        if (*resolved) out_.not_used[e.name] = **resolved;
      }
    }
    if (folded_ > 0)
      out_.warnings.push_back(fmt::format(
          "{} tensors with encodings have a normalization or a factor folded in: their scales must "
          "be of the folded numbers ({})",
          folded_, folded_name_));
    return std::move(out_);
  }

 private:
  Result<NotUsed> Resolve(const Encoding& e, const std::vector<const Lineage::Link*>& links) {
    const ValueId tensor = original_.FindValue(e.name);
    if (!tensor.valid() && links.empty()) return NotUsed(Unknown(e.name));
    if (links.empty())
      return NotUsed("the optimized graph has no such value: it was folded or fused with others");
    NotUsed why = "nothing reads it";
    Encoding own = e;
    if (!e.axis && links.size() > 1) own.axis = ChannelsOf(e, links);
    for (const Lineage::Link* link : links) {
      EVOQ_ASSIGN(NotUsed refused, Give(own, *link));
      if (!refused) {
        out_.tensors.emplace(link->value, e.name);
        why = std::nullopt;
      } else if (why) {
        why = refused;
      }
    }
    return why;
  }

  // The axis of the channels of a tensor that several layers read, where it is not written: what
  // is one layer's output may be another's input (tied weights). Nothing where none fits.
  std::optional<int> ChannelsOf(const Encoding& e,
                                const std::vector<const Lineage::Link*>& links) const {
    if (e.granularity != Granularity::kChannel) return std::nullopt;
    const ValueId tensor = original_.FindValue(links[0]->tensor);
    if (!tensor.valid()) return std::nullopt;
    const Shape& shape = original_.value(tensor).type.shape;
    for (const Lineage::Link* link : links) {
      const ValueId v = optimized_.FindValue(link->value);
      if (!v.valid() || !optimized_.value(v).is_constant()) continue;
      const int axis = OfTensor(*link, ReadingOf(optimized_, v).out_axis);
      if (axis >= 0 && shape[axis].value == static_cast<int64_t>(e.scales.size())) return axis;
    }
    return std::nullopt;
  }

  std::string Unknown(const std::string& name) {
    if (++searched_ > kMaxSearched) return "the model has no such tensor";
    if (names_.empty()) {
      for (int i = 0; i < original_.value_count(); ++i)
        names_.push_back(original_.value(ValueId{i}).name);
    }
    const std::vector<std::string> nearest = NearestNames(name, names_, kNearest);
    return nearest.empty()
               ? "the model has no such tensor"
               : fmt::format("the model has no such tensor; nearest: {}", fmt::join(nearest, ", "));
  }

  Result<NotUsed> Give(const Encoding& e, const Lineage::Link& link) {
    if (!e.refusal.empty()) return NotUsed(e.refusal);
    if (const auto other = out_.tensors.find(link.value); other != out_.tensors.end()) {
      const GivenType& given = out_.given.at(link.value);
      const bool same = !e.real && !given.real && e.bits == DTypeBits(given.dtype) &&
                        e.is_signed == IsSigned(given.dtype) && e.scales == given.params.scales &&
                        e.zero_points == given.params.zero_points;
      if (same) return NotUsed();
      return NotUsed(
          fmt::format("the optimized graph has one value for it and {}, whose parameters it has",
                      other->second));
    }
    if (e.real) {
      out_.given[link.value] = {.real = true};
      return NotUsed();
    }
    const ValueId v = optimized_.FindValue(link.value);
    const bool constant = v.valid() && optimized_.value(v).is_constant();
    if (v.valid() && optimized_.value(v).type.dtype != DType::kFloat32)
      return NotUsed(fmt::format("it is {}, not float32", optimized_.value(v).type.ToString()));
    const Reading reading = constant ? ReadingOf(optimized_, v) : Reading();
    const auto dtype = TypeOfBits(e.bits, e.is_signed, constant);
    if (!dtype) return NotUsed(fmt::format("evoq has no integers of {} bits here", e.bits));
    if (e.bits == 32 && !reading.bias)
      return NotUsed("32 bits are those of a bias, which it is not");
    for (const int32_t zero : e.zero_points) {
      if (zero < IntegerMin(*dtype) || zero > IntegerMax(*dtype))
        return NotUsed(fmt::format("its zero point {} is outside {}", zero, DTypeName(*dtype)));
    }
    GivenType given{.dtype = *dtype, .bits = e.bits < DTypeBits(*dtype) ? e.bits : 0};
    const bool one = e.scales.size() == 1 && e.channel_scales.empty();
    if (!constant && !one)
      return NotUsed("activations have one scale, not one per channel or block");
    if (one && e.granularity != Granularity::kBlock) {
      given.params = QuantParams::PerTensor(e.scales[0], e.zero_points[0]);
    } else {
      EVOQ_ASSIGN(NotUsed refused, Spread(e, link, v, reading, given));
      if (refused) return refused;
    }
    if (constant && link.changed) {
      ++folded_;
      folded_name_ = e.name;
    }
    out_.given[link.value] = std::move(given);
    return NotUsed();
  }

  // The axis of the tensor that is axis `axis` of the value.
  static int OfTensor(const Lineage::Link& link, int axis) {
    return link.perm.empty() || axis < 0 ? axis : static_cast<int>(link.perm[axis]);
  }

  // Parameters per channel or block of the tensor, and then of the value, which has its axes
  // permuted.
  Result<NotUsed> Spread(const Encoding& e, const Lineage::Link& link, ValueId v,
                         const Reading& reading, GivenType& given) const {
    const ValueId from = original_.FindValue(link.tensor);
    const Shape& shape = original_.value(from).type.shape;
    QuantParams params;
    if (e.granularity == Granularity::kChannel) {
      EVOQ_ASSIGN(params.axis, AxisOf(e, shape, OfTensor(link, reading.out_axis)));
      if (params.axis < 0)
        return NotUsed("which axis its channels are on is not written: it is no weight");
      if (shape[params.axis].value != static_cast<int64_t>(e.scales.size()))
        return InvalidInput("{} scales, expected {}: one for each index of axis {} of {}",
                            e.scales.size(), shape[params.axis].value, params.axis,
                            shape.ToString());
      params.scales = e.scales;
      params.zero_points = e.zero_points;
    } else {
      EVOQ_ASSIGN(const NotUsed refused, SpreadBlocks(e, link, reading, shape, params));
      if (refused) return refused;
    }
    const TensorType type(given.dtype, shape, std::move(params));
    EVOQ_TRY(ValidateQuant(type));
    given.params = link.perm.empty() ? *type.quant : *PermutedAxes(type, link.perm).quant;
    EVOQ_TRY(ValidateQuant(TensorType(given.dtype, optimized_.value(v).type.shape, given.params)));
    return NotUsed();
  }

  static Result<int> AxisOf(const Encoding& e, const Shape& shape, int implied) {
    if (!e.axis) return shape.rank() == 1 ? 0 : implied;
    const int axis = *e.axis < 0 ? *e.axis + shape.rank() : *e.axis;
    if (axis < 0 || axis >= shape.rank())
      return InvalidInput("axis {} of a tensor of rank {}", *e.axis, shape.rank());
    return axis;
  }

  Result<NotUsed> SpreadBlocks(const Encoding& e, const Lineage::Link& link, const Reading& reading,
                               const Shape& shape, QuantParams& params) const {
    const int rank = shape.rank();
    const int out_axis = OfTensor(link, reading.out_axis);
    EVOQ_ASSIGN(params.axis, AxisOf(e, shape, OfTensor(link, reading.in_axis)));
    if (params.axis < 0 || (!e.axis && out_axis < 0))
      return NotUsed("which axis its blocks are on is not written: it is no weight of a product");
    params.block = e.block;
    std::vector<int64_t> full = shape.sizes(), sizes = e.sizes;
    const int64_t blocks = CeilDiv(full[params.axis], e.block);
    full[params.axis] = blocks;
    std::vector<float> scales = e.scales;
    std::vector<int32_t> zeros = e.zero_points;
    if (!e.axis) {
      const int64_t channels = shape[out_axis].value;
      // Output channels first, but for those of a ConvTranspose, whose weight has them second.
      const bool out_first = rank == 2 || out_axis == 0;
      EVOQ_TRY(ListBlocks(e, channels, blocks, out_first, scales, zeros, params.axis > out_axis));
      sizes.assign(static_cast<size_t>(rank), 1);
      sizes[out_axis] = channels;
      sizes[params.axis] = blocks;
    }
    if (sizes.size() != full.size())
      return InvalidInput("scales nested {} deep, expected {}: the rank of {}", sizes.size(),
                          full.size(), shape.ToString());
    for (int d = 0; d < rank; ++d) {
      if (sizes[d] != full[d] && (sizes[d] != 1 || d == params.axis))
        return InvalidInput("{} scales on axis {}, expected {}: blocks of {} on axis {} of {}",
                            sizes[d], d, full[d], e.block, params.axis, shape.ToString());
    }
    const auto count = CheckedProduct(full);
    if (!count) return InvalidInput("too many scales");
    for (int64_t i = 0; i < *count; ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (int d = rank; d-- > 0;) {
        if (sizes[d] != 1) at += rest % full[d] * stride;
        rest /= full[d];
        stride *= sizes[d];
      }
      params.scales.push_back(scales[at]);
      params.zero_points.push_back(zeros[at]);
    }
    return NotUsed();
  }

  // The flat scales and zero points of version 1.0.0 in the order of the tensor's axes: channels
  // before blocks, where `channels_first`.
  static Status ListBlocks(const Encoding& e, int64_t channels, int64_t blocks, bool out_first,
                           std::vector<float>& scales, std::vector<int32_t>& zeros,
                           bool channels_first) {
    const bool lpbq = !e.channel_scales.empty();
    const size_t listed = lpbq ? e.block_scales.size() : e.scales.size();
    if (CheckedProduct(std::vector<int64_t>{channels, blocks}) != static_cast<int64_t>(listed))
      return InvalidInput("{} scales, expected {} for {} output channels in {} blocks", listed,
                          channels * blocks, channels, blocks);
    if (lpbq && static_cast<int64_t>(e.channel_scales.size()) != channels &&
        e.channel_scales.size() != 1)
      return InvalidInput("{} scales of channels, expected {}", e.channel_scales.size(), channels);
    scales.assign(listed, 0);
    zeros.assign(listed, 0);
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = out_first ? c * blocks + b : b * channels + c,
                      to = channels_first ? c * blocks + b : b * channels + c;
        scales[to] =
            lpbq ? static_cast<float>(static_cast<double>(e.block_scales[from]) *
                                      e.channel_scales[e.channel_scales.size() == 1 ? 0 : c])
                 : e.scales[from];
        zeros[to] = e.zero_points[from];
      }
    }
    return {};
  }

  const Graph &original_, &optimized_;
  const Lineage lineage_;
  ResolvedEncodings out_;
  std::vector<std::string> names_;  // of the model's tensors, once asked for
  size_t searched_ = 0;
  int folded_ = 0;
  std::string folded_name_;
};

Encoding EncodingOf(const std::string& tensor, const TensorType& type, bool parameter) {
  const QuantParams& q = *type.quant;
  Encoding e{.name = tensor,
             .parameter = parameter,
             .bits = DTypeBits(type.dtype),
             .is_signed = IsSigned(type.dtype),
             .scales = q.scales,
             .zero_points = q.zero_points,
             .block = q.block};
  if (q.per_tensor()) return e;
  e.axis = q.axis;
  e.granularity = q.block > 0 ? Granularity::kBlock : Granularity::kChannel;
  e.sizes = {static_cast<int64_t>(q.scales.size())};
  if (q.block > 0) {
    e.sizes = type.shape.sizes();
    e.sizes[q.axis] = CeilDiv(e.sizes[q.axis], q.block);
  }
  return e;
}

}  // namespace

Result<ResolvedEncodings> ResolveEncodings(std::span<const Encoding> encodings,
                                           const Graph& original, const Graph& optimized) {
  return Resolver(original, optimized).Run(encodings);
}

static bool SameNumbers(const Encoding& a, const Encoding& b) {
  return a.axis == b.axis && a.scales == b.scales && a.zero_points == b.zero_points;
}

// The axis of a constant's output channels, as its first product in the file has it; -1: none.
static int ChannelsInFile(const Graph& original, ValueId tensor) {
  for (const NodeId id : original.value(tensor).users) {
    const Node& node = original.node(id);
    if (IsWeighted(node) && node.input(1) == tensor)
      return WeightAxis(node, original.value(tensor).type.shape.rank());
  }
  return -1;
}

UsedEncodings EncodingsOfUsed(const std::map<std::string, TensorType>& used,
                              const std::map<std::string, int>& activation_bits,
                              const Graph& original, const Lineage& lineage) {
  struct Made {
    std::string value;
    Encoding encoding;
  };
  std::map<std::string, Made> by_tensor;
  UsedEncodings out;
  for (const auto& [value, type] : used) {
    const Lineage::Link* link = lineage.OfValue(value);
    if (link == nullptr) {
      out.left_out[value] = "the model's file has no such tensor";
    } else if (!IsInteger(type.dtype)) {
      out.left_out[value] = fmt::format("{} is no integer type", DTypeName(type.dtype));
    } else {
      const ValueId tensor = original.FindValue(link->tensor);
      const bool parameter = tensor.valid() && original.value(tensor).is_constant();
      const TensorType own = link->perm.empty() ? type : PermutedAxes(type, Inverse(link->perm));
      Encoding encoding = EncodingOf(link->tensor, own, parameter);
      if (const auto few = activation_bits.find(value); few != activation_bits.end())
        encoding.bits = few->second;
      // Tied weights may be two constants of two layers, with scales along different axes.
      const auto [at, fresh] = by_tensor.emplace(link->tensor, Made{value, encoding});
      if (fresh || SameNumbers(at->second.encoding, encoding)) continue;
      Made other{value, std::move(encoding)};
      if (parameter && other.encoding.axis == ChannelsInFile(original, tensor))
        std::swap(at->second, other);
      out.left_out[other.value] =
          fmt::format("{} has that of {}, which is made of it too", link->tensor, at->second.value);
    }
  }
  for (auto& [name, made] : by_tensor) out.encodings.push_back(std::move(made.encoding));
  return out;
}

}  // namespace evoq
