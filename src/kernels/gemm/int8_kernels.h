// What the four kernels of the integer engine share: checks, packing and binding.
#pragma once

#include "kernels/gemm/int8_geometry.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_variants.h"

namespace evoq {

// Conv and MatMul on quantized types: inputs x, w, bias?, residual?. `w_axis`: the axis of w that
// may have scales.
std::optional<Reason> RejectQuantizedLinear(const KernelCall& call, const Int8Geometry& geometry,
                                            int w_axis);
// What it computes, but for its weights.
Result<Int8LinearSpec> QuantizedLinearSpec(const KernelCall& call, const Int8Geometry& geometry,
                                           const BindOptions& options);
Result<BoundKernel> BindQuantizedLinear(const KernelCall& call, const Int8Geometry& geometry,
                                        const BindOptions& options);

// ConvInteger and MatMulInteger: inputs x, w, x_zero_point?, w_zero_point?.
std::optional<Reason> RejectIntegerLinear(const KernelCall& call, const Int8Geometry& geometry);
Result<BoundKernel> BindIntegerLinear(const KernelCall& call, const Int8Geometry& geometry,
                                      const BindOptions& options);

// Binds `spec`, whose weights are the call's input 1, by the engine that takes its geometry.
Result<BoundKernel> BindInt8Either(const KernelCall& call, Int8LinearSpec spec,
                                   const BindOptions& options);

// Packs input 1 into k4n16, or the blocks of it that are not zero where those are few
// (layout_blocks.h), and leaves other inputs, and weights that Int8Direct reads, plain.
Result<Tensor> PackInt8Weights(const KernelCall& call, size_t input, const Int8Geometry& geometry);
// Whether BindInt8Either takes input `input` in this layout.
bool ReadsInt8Weights(const KernelCall& call, size_t input, const Int8Geometry& geometry,
                      std::string_view layout);

// The functions of a KernelDef. `kRead` reads the geometry of a call; `kReject(call, geometry)` and
// `kBind(call, geometry, options)` are as above.
template <auto kRead, auto kReject, auto kBind>
struct Int8Functions {
  static std::optional<Reason> Reject(const KernelCall& call) {
    Int8Geometry geometry;
    if (auto rejection = kRead(call, geometry)) return rejection;
    return kReject(call, geometry);
  }
  static Result<Tensor> Pack(const KernelCall& call, size_t input) {
    Int8Geometry geometry;
    if (auto rejection = kRead(call, geometry)) return Unsupported("{}", rejection->sentence);
    return PackInt8Weights(call, input, geometry);
  }
  static Result<BoundKernel> Bind(const KernelCall& call, const BindOptions& options) {
    Int8Geometry geometry;
    if (auto rejection = kRead(call, geometry)) return Unsupported("{}", rejection->sentence);
    return kBind(call, geometry, options);
  }
  static std::vector<std::string> Variants(const KernelCall& call, const BindOptions& options) {
    Int8Geometry geometry;
    if (kRead(call, geometry)) return {};
    return Int8Variants(geometry, options, call.constants[1]);
  }
};

}  // namespace evoq
