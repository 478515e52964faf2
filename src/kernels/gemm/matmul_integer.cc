#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

using Functions = Int8Functions<ReadMatMulGeometry, RejectIntegerLinear, BindIntegerLinear>;

}  // namespace

extern const KernelDef kMatMulIntegerKernel;
const KernelDef kMatMulIntegerKernel = {
    .name = "matmul_integer",
    .op = "MatMulInteger",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = Functions::Reject,
    .pack = Functions::Pack,
    .bind = Functions::Bind,
    .variants = Functions::Variants,
};

}  // namespace evoq
