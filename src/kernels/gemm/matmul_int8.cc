#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

std::optional<Rejection> Reject(const KernelCall& call, const Int8Geometry& geometry) {
  return RejectQuantizedLinear(call, geometry, /*w_axis=*/1);
}

using Functions = Int8Functions<ReadMatMulGeometry, Reject, BindQuantizedLinear>;

}  // namespace

extern const KernelDef kMatMulInt8;
const KernelDef kMatMulInt8 = {
    "matmul_int8",     "MatMul",        "int8",          Peak::kInt8,
    Functions::Reject, Functions::Pack, Functions::Bind, Functions::Variants,
    Int8InPlace};

}  // namespace evoq
