#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

std::optional<Reason> Reject(const KernelCall& call, const Int8Geometry& geometry) {
  return RejectQuantizedLinear(call, geometry, /*w_axis=*/0);
}

using Functions = Int8Functions<ReadConvGeometry, Reject, BindQuantizedLinear>;

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
    .variants = Functions::Variants,
    .in_place = Int8InPlace,
};

}  // namespace evoq
