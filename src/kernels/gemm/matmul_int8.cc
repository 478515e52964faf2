#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

std::optional<Reason> Reject(const KernelCall& call, const Int8Geometry& geometry) {
  return RejectQuantizedLinear(call, geometry, /*w_axis=*/1);
}

using Functions = Int8Functions<ReadMatMulGeometry, Reject, BindQuantizedLinear>;

}  // namespace

extern const KernelDef kMatMulInt8;
const KernelDef kMatMulInt8 = {
    .name = "matmul_int8",
    .op = "MatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = Functions::Reject,
    .pack = Functions::Pack,
    .bind = Functions::Bind,
    .variants = Functions::Variants,
    .in_place = Int8InPlace,
};

}  // namespace evoq
