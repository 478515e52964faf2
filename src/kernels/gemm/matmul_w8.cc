// matmul_w8 (matmul_w8.h): float32 a with at most 16 rows, a constant 2-D b of 8-bit integers with
// scales per tensor, per column or per block along K.
#include "kernels/gemm/matmul_w8.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/layout.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr char kLayout[] = "k1n16-matmul-w8";

Result<int64_t> PackedBytes(const TensorType& type) {
  if (DTypeBits(type.dtype) != 8 || type.shape.rank() != 2 || !type.bytes())
    return InvalidInput("layout {} of {}: expected a static matrix of bytes", kLayout,
                        type.ToString());
  const auto s = type.shape.sizes();
  const int64_t sizes[] = {CeilDiv(s[1], int64_t{kW8Columns}), s[0], kW8Columns};
  const auto bytes = CheckedProduct(sizes);
  if (!bytes) return Fail(ErrorCode::kTooLarge, "layout {} of {}", kLayout, type.ToString());
  return *bytes;
}

// Index in the packed bytes of b[k, n].
int64_t PackedIndex(int64_t depth, int64_t k, int64_t n) {
  return (n / kW8Columns * depth + k) * kW8Columns + n % kW8Columns;
}

Result<Tensor> Pack(const Tensor& plain) {
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(plain.type()));
  std::vector<std::byte> packed(static_cast<size_t>(bytes));
  const auto s = plain.sizes();
  for (int64_t k = 0; k < s[0]; ++k) {
    for (int64_t n = 0; n < s[1]; ++n) packed[PackedIndex(s[0], k, n)] = plain.raw()[k * s[1] + n];
  }
  return Tensor::Packed(plain.type(), kLayout, std::move(packed));
}

Result<Tensor> Unpack(const Tensor& packed) {
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(packed.type()));
  if (static_cast<int64_t>(packed.bytes()) != bytes)
    return InvalidInput("layout {} of {}: {} bytes, expected {}", kLayout, packed.type().ToString(),
                        packed.bytes(), bytes);
  Tensor plain = Tensor::Allocate(packed.type());
  const auto s = plain.sizes();
  for (int64_t k = 0; k < s[0]; ++k) {
    for (int64_t n = 0; n < s[1]; ++n)
      plain.mutable_raw()[k * s[1] + n] = packed.raw()[PackedIndex(s[0], k, n)];
  }
  return plain;
}

std::optional<Rejection> RejectW8(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Reject("shape", "{} inputs and {} outputs, expected a, b and y", call.inputs.size(),
                  call.outputs.size());
  for (size_t i : {0, 2, 3}) {
    if (call.has_input(i) && !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected float32", call.outputs[0].ToString());
  const TensorType& b = call.inputs[1];
  if (!b.quantized() || (b.dtype != DType::kInt8 && b.dtype != DType::kUint8))
    return Reject("types", "b is {}, expected quantized int8 or uint8", b.ToString());
  if (call.constant(1) == nullptr) return Reject("not-constant", "b is computed");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (b.shape.rank() != 2) return Reject("shape", "b has rank {}, expected 2", b.shape.rank());
  const bool columns = b.quant->block == 0 && (b.quant->per_tensor() || b.quant->axis == 1);
  if (!columns && (b.quant->block == 0 || b.quant->axis != 0))
    return Reject("types", "b has scales along axis {}, expected columns or blocks along K",
                  b.quant->axis);
  const auto& zeros = b.quant->zero_points;
  if (!columns && std::any_of(zeros.begin(), zeros.end(), [](int32_t z) { return z != 0; }))
    return Reject("types", "blocks with zero points");
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  MatMulShape shape;
  if (auto why = ReadMatMulShape(call, shape)) return why;
  if (shape.m < 1 || shape.m > kW8MaxRows)
    return Reject("shape", "{} rows, expected 1 to {}", shape.m, kW8MaxRows);
  return std::nullopt;
}

struct W8State {
  W8Args args;
  std::vector<int32_t> zeros;
  std::vector<float> scales;
  std::optional<Unary> activation;
  bool has_bias = false, has_residual = false;
  Isa isa = Isa::kScalar;
  int64_t grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* bias = has_bias ? static_cast<const float*>(in[2]) : nullptr;
    const auto* residual = has_residual ? static_cast<const float*>(in[3]) : nullptr;
    auto* y = static_cast<float*>(out[0]);
    W8Args now = args;
    now.zeros = zeros.empty() ? nullptr : zeros.data();
    now.scales = scales.data();
    context.pool.ParallelFor(
        CeilDiv(args.columns, int64_t{kW8Columns}), grain, [&](int64_t begin, int64_t end) {
          W8TableFor(isa).panels(now, static_cast<const float*>(in[0]), bias, residual, y, begin,
                                 end);
          if (!activation) return;
          const int64_t first = begin * kW8Columns,
                        count = std::min(end * kW8Columns, args.columns) - first;
          for (int64_t r = 0; r < args.rows; ++r) {
            float* row = y + r * args.columns + first;
            UnaryTableFor(isa).apply(*activation, row, row, count);
          }
        });
  }
};

// Scales [blocks][columns padded] and, where any is not zero, zero points per column.
Status ReadScales(const QuantParams& quant, W8State& state) {
  const int64_t n = state.args.columns, padded = RoundUp(n, int64_t{kW8Columns});
  const int64_t blocks = std::max<int64_t>(CeilDiv(state.args.depth, state.args.block), 1);
  const bool blocked = quant.block != 0;
  const int64_t wanted = blocked ? blocks * n : quant.per_tensor() ? 1 : n;
  if (static_cast<int64_t>(quant.scales.size()) != wanted ||
      quant.zero_points.size() != quant.scales.size())
    return InvalidInput("{} scales for {} blocks of {} columns", quant.scales.size(), blocks, n);
  state.scales.assign(static_cast<size_t>(blocks * padded), 0.0f);
  for (int64_t i = 0; i < blocks * n; ++i)
    state.scales[i / n * padded + i % n] = quant.scales[static_cast<size_t>(wanted == 1 ? 0 : i)];
  const bool any = std::any_of(quant.zero_points.begin(), quant.zero_points.end(),
                               [](int32_t z) { return z != 0; });
  if (!any) return {};
  state.zeros.assign(static_cast<size_t>(padded), 0);
  for (int64_t i = 0; i < n; ++i)
    state.zeros[i] = quant.zero_points[static_cast<size_t>(wanted == 1 ? 0 : i)];
  return {};
}

Result<BoundKernel> BindW8(const KernelCall& call, const BindOptions& options) {
  const Tensor& b = *call.constant(1);
  if (b.layout() != kLayout)
    return InvalidInput("weights have layout '{}', expected {}", b.layout(), kLayout);
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(b.type()));
  if (static_cast<int64_t>(b.bytes()) != bytes)
    return InvalidInput("{} bytes of weights, expected {}", b.bytes(), bytes);
  MatMulShape shape;
  if (const auto why = ReadMatMulShape(call, shape)) return Unsupported("{}", why->why);
  const QuantParams& quant = *call.inputs[1].quant;
  W8State state;
  state.args = {shape.m,
                shape.n,
                shape.k,
                quant.block != 0 ? quant.block : std::max<int64_t>(shape.k, 1),
                reinterpret_cast<const uint8_t*>(b.raw()),
                b.dtype() == DType::kInt8,
                nullptr,
                nullptr};
  EVOQ_TRY(ReadScales(quant, state));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.activation = UnaryFromActivation(activation);
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  state.isa = options.isa;
  const double panel_ns =
      static_cast<double>(shape.k) * (0.1 + 0.08 * static_cast<double>(shape.m));
  state.grain =
      RoundUp(Grain(CeilDiv(shape.n, int64_t{kW8Columns}), panel_ns, options.threads), int64_t{4});
  return BoundKernel::Of(std::move(state));
}

Result<Tensor> PackW8(const KernelCall& call, size_t input) {
  if (input != 1 || !call.constant(1)->layout().empty()) return Tensor();
  return Pack(*call.constant(1));
}

}  // namespace

extern const LayoutDef kMatMulPanelsW8 = {
    kLayout, "[N/16][K][16] bytes: b[k, n] at (n/16, k, n%16); N filled up with zeros", PackedBytes,
    Pack, Unpack};
extern const KernelDef kMatMulW8 = {"matmul_w8", "MatMul", "float32", Peak::kMemory,
                                    RejectW8,    PackW8,   BindW8};

}  // namespace evoq
