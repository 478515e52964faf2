#include "kernels/conv/conv_taps_int8.h"
#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

std::optional<Reason> Reject(const KernelCall& call, const Int8Geometry& geometry) {
  return RejectQuantizedLinear(call, geometry, /*w_axis=*/0);
}

// Of a call that ReadConvGeometry takes.
bool ChoosesTaps(const KernelCall& call, std::string_view variant, ConvShapeF32& shape) {
  return !ReadConvSizes(call, false, shape) && ChooseTapsInt8(shape, false, variant);
}

Result<BoundKernel> Bind(const KernelCall& call, const Int8Geometry& geometry,
                         const BindOptions& options) {
  ConvShapeF32 shape;
  if (!ChoosesTaps(call, options.variant, shape))
    return BindQuantizedLinear(call, geometry, options);
  EVOQ_ASSIGN(Int8LinearSpec spec, QuantizedLinearSpec(call, geometry, options));
  return BindTapsInt8(shape, false, std::move(spec), *call.constant(1), options);
}

using Functions = Int8Functions<ReadConvGeometry, Reject, Bind>;

std::vector<std::string> Variants(const KernelCall& call, const BindOptions& options) {
  std::vector<std::string> variants = Functions::Variants(call, options);
  ConvShapeF32 shape;
  if (ChoosesTaps(call, "", shape)) variants.emplace_back(kTapsBeside);
  return variants;
}

}  // namespace

extern const KernelDef kConvInt8;
const KernelDef kConvInt8 = {
    .name = "conv_int8",
    .op = "Conv",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = Functions::Reject,
    .pack = Functions::Pack,
    .bind = Functions::Bind,
    .variants = Variants,
    .in_place = Int8InPlace,
};

}  // namespace evoq
