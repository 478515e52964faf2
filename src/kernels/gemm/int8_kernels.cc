#include "kernels/gemm/int8_kernels.h"

#include "kernels/gemm/int8_groups.h"
#include "kernels/gemm/int8_sparse.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/gemm/layout_k4n16.h"
#include "kernels/quantize/table.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

bool Is8Bit(DType dtype) { return dtype == DType::kUint8 || dtype == DType::kInt8; }
bool IsPerTensor(const TensorType& type) {
  return type.quantized() && type.quant->per_tensor() && type.quant->scales.size() == 1 &&
         type.quant->zero_points.size() == 1;
}

Reason WrongType(const char* what, const TensorType& type, const char* wanted) {
  return {"types", fmt::format("{} is {}, expected {}", what, type.ToString(), wanted)};
}

std::optional<Reason> RejectWeights(const TensorType& w, const Int8Geometry& g, int w_axis) {
  if (!Is8Bit(w.dtype) || !w.quantized()) return WrongType("w", w, "quantized int8 or uint8");
  if (w.quant->block != 0) return WrongType("w", w, "unblocked scales");
  if (IsPerTensor(w)) return std::nullopt;
  const auto columns = static_cast<size_t>(g.out_channels);
  if (w.quant->axis != w_axis || w.quant->scales.size() != columns ||
      w.quant->zero_points.size() != columns)
    return WrongType("w", w, "one scale, or one per output channel");
  return std::nullopt;
}

std::optional<Reason> RejectExtras(const KernelCall& call, const Int8Geometry& g) {
  const TensorType& y = call.outputs[0];
  if (call.has_input(2)) {
    const TensorType& bias = call.inputs[2];
    if (bias.dtype != DType::kInt32 || bias.shape.elements() != g.out_channels)
      return WrongType("bias", bias, "int32, one per output channel");
    if (call.constant(2) == nullptr || !call.constant(2)->layout().empty())
      return Reason{"not-constant", "bias is not a plain constant"};
  }
  if (call.has_input(3)) {
    const TensorType& r = call.inputs[3];
    if (!(r.shape == y.shape))
      return Reason{"shape", fmt::format("residual is {}, y {}", r.ToString(), y.ToString())};
    const bool is_float = r.dtype == DType::kFloat32 && !r.quantized() && !y.quantized();
    if (!is_float && !(Is8Bit(r.dtype) && IsPerTensor(r)))
      return WrongType("residual", r,
                       "8-bit quantized per tensor, or float32 with a float32 output");
  }
  const auto product = ProductActivationFromAttrs(call.attrs);
  if (!product) return Reason{"attribute", product.error().message()};
  if (!IsPiecewiseLinear(product->activation.kind))
    return Reason{"attribute", fmt::format("activation {} is not piecewise linear",
                                           ActivationName(product->activation.kind))};
  if (auto wrong = product->WhyNot(g.out_channels)) return Reason{"attribute", *wrong};
  return std::nullopt;
}

std::vector<int32_t> Int32s(const Tensor& tensor) {
  return {tensor.data<int32_t>(), tensor.data<int32_t>() + tensor.elements()};
}

// A plain constant 8-bit zero point as numbers.
std::vector<int32_t> ZeroPoints(const Tensor& tensor) {
  std::vector<int32_t> zeros;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    zeros.push_back(tensor.dtype() == DType::kUint8 ? tensor.data<uint8_t>()[i]
                                                    : tensor.data<int8_t>()[i]);
  return zeros;
}

}  // namespace

Result<BoundKernel> BindInt8Either(const KernelCall& call, Int8LinearSpec spec,
                                   const BindOptions& options) {
  spec.weights = *call.constant(1);
  EVOQ_TRY(JoinNarrowGroups(spec, options));
  if (UsesDirect(spec.geometry)) return BindInt8Direct(std::move(spec), options);
  if (spec.weights.layout().empty()) {
    EVOQ_ASSIGN(spec.weights, PackInt8Weights(call, 1, spec.geometry));
  }
  if (IsBlockLayout(spec.weights.layout())) {
    EVOQ_ASSIGN(const BlockWeights blocks, ReadBlocks(spec.weights));
    if (SparseTilesFor(spec, blocks, options) != nullptr)
      return BindInt8Linear(std::move(spec), options);
    EVOQ_ASSIGN(spec.weights, UnpackBlocks(spec.weights));
  }
  if (TakesInt8Winograd(spec, options)) return BindInt8Winograd(std::move(spec), options);
  return BindInt8Linear(std::move(spec), options);
}

std::optional<Reason> RejectQuantizedLinear(const KernelCall& call, const Int8Geometry& geometry,
                                            int w_axis) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (!Is8Bit(x.dtype) || !IsPerTensor(x))
    return WrongType("x", x, "uint8 or int8, quantized per tensor");
  const bool float_y = y.dtype == DType::kFloat32 && !y.quantized();
  if (!float_y && !(Is8Bit(y.dtype) && IsPerTensor(y)))
    return WrongType("y", y, "uint8 or int8 quantized per tensor, or float32");
  if (auto rejection = RejectWeights(call.inputs[1], geometry, w_axis)) return rejection;
  if (call.constant(1) == nullptr) return Reason{"not-constant", "w is not constant"};
  if (auto rejection = RejectTable(call)) return rejection;
  return RejectExtras(call, geometry);
}

Result<Int8LinearSpec> QuantizedLinearSpec(const KernelCall& call, const Int8Geometry& geometry,
                                           const BindOptions& options) {
  Int8LinearSpec spec;
  spec.geometry = geometry;
  spec.x_signed = call.inputs[0].dtype == DType::kInt8;
  spec.x_zero = call.inputs[0].quant->zero_points[0];
  spec.w_zero = call.inputs[1].quant->zero_points;
  if (call.has_input(2)) spec.bias = Int32s(*call.constant(2));
  CallBeforeTable before(call);
  EVOQ_ASSIGN(spec.epilogue, QuantizedEpilogue(before.call, geometry.out_channels));
  spec.finish.isa = options.isa;
  spec.finish.table = std::move(before.table);
  return spec;
}

Result<BoundKernel> BindQuantizedLinear(const KernelCall& call, const Int8Geometry& geometry,
                                        const BindOptions& options) {
  EVOQ_ASSIGN(Int8LinearSpec spec, QuantizedLinearSpec(call, geometry, options));
  return BindInt8Either(call, std::move(spec), options);
}

std::optional<Reason> RejectIntegerLinear(const KernelCall& call, const Int8Geometry& geometry) {
  const TensorType &x = call.inputs[0], &w = call.inputs[1], &y = call.outputs[0];
  if (!Is8Bit(x.dtype) || x.quantized()) return WrongType("x", x, "plain uint8 or int8");
  if (!Is8Bit(w.dtype) || w.quantized()) return WrongType("w", w, "plain uint8 or int8");
  if (y.dtype != DType::kInt32 || y.quantized()) return WrongType("y", y, "int32");
  if (call.constant(1) == nullptr) return Reason{"not-constant", "w is not constant"};
  if (call.has_input(2)) {
    const TensorType& zero = call.inputs[2];
    if (zero.dtype != x.dtype || zero.shape.elements() != 1)
      return WrongType("x_zero_point", zero, "one of x's type");
  }
  if (!call.has_input(3)) return std::nullopt;
  const TensorType& zero = call.inputs[3];
  const auto count = zero.shape.elements();
  if (zero.dtype != w.dtype || (count != 1 && count != geometry.out_channels))
    return WrongType("w_zero_point", zero, "one, or one per output channel, of w's type");
  if (call.constant(3) == nullptr || !call.constant(3)->layout().empty())
    return Reason{"not-constant", "w_zero_point is not a plain constant"};
  return std::nullopt;
}

Result<BoundKernel> BindIntegerLinear(const KernelCall& call, const Int8Geometry& geometry,
                                      const BindOptions& options) {
  Int8LinearSpec spec;
  spec.geometry = geometry;
  spec.x_signed = call.inputs[0].dtype == DType::kInt8;
  if (call.has_input(2)) {
    if (call.constant(2) != nullptr) {
      spec.x_zero = ZeroPoints(*call.constant(2))[0];
    } else {
      spec.x_zero_input = 2;
    }
  }
  if (call.has_input(3)) spec.w_zero = ZeroPoints(*call.constant(3));
  return BindInt8Either(call, std::move(spec), options);
}

Result<Tensor> PackInt8Weights(const KernelCall& call, size_t input, const Int8Geometry& geometry) {
  if (input != 1 || UsesDirect(geometry)) return Tensor();
  const bool conv = call.constant(input)->shape().rank() > 2;
  EVOQ_ASSIGN(Tensor packed,
              (conv ? kLayoutK4N16Conv : kLayoutK4N16MatMul).pack(*call.constant(1)));
  const LayoutDef* const blocks = geometry.group == 1 ? BlockLayoutFor(packed) : nullptr;
  return blocks != nullptr ? PackBlocks(packed, *blocks) : packed;
}

bool ReadsInt8Weights(const KernelCall& call, size_t input, const Int8Geometry& geometry,
                      std::string_view layout) {
  if (input != 1 || UsesDirect(geometry)) return false;
  const bool conv = call.inputs[1].shape.rank() > 2;
  return layout == (conv ? kK4N16Conv : kK4N16MatMul) ||
         (geometry.group == 1 && IsBlockLayout(layout));
}

}  // namespace evoq
