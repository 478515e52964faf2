// DynamicQuantizeLinear, evoq::DynamicQuantizeBytes and evoq::QuantizeBytes: plain bytes of data,
// by the range that the data has or by a scale and a zero point that are known.
#include <algorithm>
#include <utility>

#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

std::optional<Reason> RejectData(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!PlainFloat(call.inputs[0]))
    return Reject("types", "input 0 is {}, expected float32", call.inputs[0].ToString());
  return std::nullopt;
}

// Outputs: y, y_scale, y_zero_point; of two bytes also what y leaves and its scale.
std::optional<Reason> RejectDynamic(const KernelCall& call, size_t outputs) {
  if (auto data = RejectData(call)) return data;
  if (call.has_input(1) && (!PlainFloat(call.inputs[1]) || ElementsOf(call.inputs[1]) != 2)) {
    return Reject("types", "range is {}, expected float32[2]", call.inputs[1].ToString());
  }
  if (call.outputs.size() != outputs)
    return Reject("types", "{} outputs, expected {}", call.outputs.size(), outputs);
  for (size_t i = 0; i < outputs; i += 3) {
    if (call.outputs[i].dtype != DType::kUint8 || call.outputs[i].quantized()) {
      return Reject("types", "output {} is {}, expected plain uint8", i,
                    call.outputs[i].ToString());
    }
  }
  return std::nullopt;
}

std::optional<Reason> RejectByte(const KernelCall& call) { return RejectDynamic(call, 3); }
std::optional<Reason> RejectBytes(const KernelCall& call) { return RejectDynamic(call, 5); }

// Inputs: x, scale, zero_point. Outputs: y and what it leaves.
std::optional<Reason> RejectStaticBytes(const KernelCall& call) {
  if (auto data = RejectData(call)) return data;
  if (!PlainFloat(call.inputs[1]) || ElementsOf(call.inputs[1]) != 1)
    return Reject("types", "scale is {}, expected one float32", call.inputs[1].ToString());
  if (call.inputs[2].dtype != DType::kUint8 || ElementsOf(call.inputs[2]) != 1)
    return Reject("types", "zero point is {}, expected one uint8", call.inputs[2].ToString());
  if (call.outputs.size() != 2)
    return Reject("types", "{} outputs, expected 2", call.outputs.size());
  return std::nullopt;
}

// scale = (max(x, 0) - min(x, 0)) / 255, 1 when all are 0; zero = saturate(round_half_even(0 -
// min(x, 0) / scale)); y = saturate(round_half_even(x / scale) + zero). Of two bytes: rest_scale =
// ratio * scale; rest = saturate(round_half_even((x - (y - zero) * scale) / rest_scale) + 128).
struct DynamicState {
  static constexpr int64_t kPiece = 16384;
  static constexpr int64_t kTile = 1024;  // whose floats stay in the first cache
  int64_t elements;
  int threads;
  Isa isa;
  bool writes_scale, writes_zero, writes_rest_scale;
  bool has_range;  // input 1 holds min(x, 0) and max(x, 0)
  bool is_static;  // inputs 1 and 2 are the scale and the zero point
  bool two_bytes;
  size_t rest_output;
  float ratio;       // of rest_scale to the scale
  float rest_scale;  // of is_static

  int64_t pieces() const { return CeilDiv(elements, kPiece); }

  std::pair<float, float> RangeOf(const void* const* in, const RunContext& context) const {
    if (has_range)
      return {static_cast<const float*>(in[1])[0], static_cast<const float*>(in[1])[1]};
    const QuantizeTable& table = QuantizeTableFor(isa);
    const auto* x = static_cast<const float*>(in[0]);
    auto* lows = reinterpret_cast<float*>(context.scratch);
    float* highs = lows + pieces();
    context.pool.ParallelFor(
        pieces(), Grain(pieces(), 800, threads), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            table.range(x + i * kPiece, std::min(kPiece, elements - i * kPiece), lows + i,
                        highs + i);
          }
        });
    float low = 0, high = 0;
    for (int64_t i = 0; i < pieces(); ++i)
      low = std::min(low, lows[i]), high = std::max(high, highs[i]);
    return {low, high};
  }

  std::pair<float, int32_t> ScaleOf(const void* const* in, const RunContext& context) const {
    if (is_static) return {*static_cast<const float*>(in[1]), *static_cast<const uint8_t*>(in[2])};
    const auto [low, high] = RangeOf(in, context);
    const float scale = high == low ? 1.0f : (high - low) / 255.0f;
    return {scale, QuantizeValue(0.0f - low, scale, 0, 0, 255)};
  }

  // What the bytes y leave of x, as bytes.
  void Rest(const float* x, const uint8_t* y, int64_t n, float scale, int32_t zero,
            const Divisor& by, uint8_t* rest) const {
    const QuantizeTable& table = QuantizeTableFor(isa);
    alignas(64) float left[kTile];
    table.dequantize(y, IntegerKind::kUint8, left, n, scale, zero);
    for (int64_t i = 0; i < n; ++i) left[i] = x[i] - left[i];
    table.quantize(left, rest, n, by, 128, IntegerRange{0, 255});
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const QuantizeTable& table = QuantizeTableFor(isa);
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<uint8_t*>(out[0]);
    const auto [scale, zero] = ScaleOf(in, context);
    const float of_rest = is_static ? rest_scale : scale * ratio;
    if (writes_scale) *static_cast<float*>(out[1]) = scale;
    if (writes_zero) *static_cast<uint8_t*>(out[2]) = static_cast<uint8_t>(zero);
    if (writes_rest_scale) *static_cast<float*>(out[4]) = of_rest;
    const auto divisor = [&](float by) {
      return elements < kPiece ? Divisor(by) : Divisor::Of(by);
    };
    const Divisor by = divisor(scale);
    if (!two_bytes) {
      context.pool.ParallelFor(
          elements, Grain(elements, 0.15, threads), [&](int64_t begin, int64_t end) {
            table.quantize(x + begin, y + begin, end - begin, by, zero, IntegerRange{0, 255});
          });
      return;
    }
    const Divisor by_rest = divisor(of_rest);
    auto* rest = static_cast<uint8_t*>(out[rest_output]);
    context.pool.ParallelFor(elements, Grain(elements, 0.4, threads),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t at = begin; at < end; at += kTile) {
                                 const int64_t n = std::min(kTile, end - at);
                                 table.quantize(x + at, y + at, n, by, zero, IntegerRange{0, 255});
                                 Rest(x + at, y + at, n, scale, zero, by_rest, rest + at);
                               }
                             });
  }
};

Result<BoundKernel> BindDynamic(const KernelCall& call, const BindOptions& options) {
  const bool is_static = call.op == "QuantizeBytes";
  const auto writes = [&](size_t i) {
    return !is_static && call.outputs.size() > i && call.outputs[i].dtype != DType::kUndefined;
  };
  DynamicState state{ElementsOf(call.inputs[0]),
                     options.threads,
                     options.isa,
                     writes(1),
                     writes(2),
                     writes(4),
                     !is_static && call.has_input(1),
                     is_static,
                     call.op != "DynamicQuantizeLinear",
                     is_static ? size_t{1} : size_t{3},
                     call.attrs.Float("ratio", 0),
                     call.attrs.Float("rest_scale", 0)};
  const size_t scratch = static_cast<size_t>(state.pieces()) * 2 * sizeof(float);
  return BoundKernel::Of(state, scratch);
}

}  // namespace

extern const KernelDef kDynamicQuantizeKernel = {
    .name = "dynamic_quantize",
    .op = "DynamicQuantizeLinear",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectByte,
    .bind = BindDynamic,
};
extern const KernelDef kDynamicQuantizeBytesKernel = {
    .name = "dynamic_quantize_bytes",
    .op = "DynamicQuantizeBytes",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectBytes,
    .bind = BindDynamic,
};
extern const KernelDef kQuantizeBytesKernel = {
    .name = "quantize_bytes",
    .op = "QuantizeBytes",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectStaticBytes,
    .bind = BindDynamic,
};

}  // namespace evoq
