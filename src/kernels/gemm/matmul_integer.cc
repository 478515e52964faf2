#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

using Functions = Int8Functions<ReadMatMulGeometry, RejectIntegerLinear, BindIntegerLinear>;

}  // namespace

extern const KernelDef kMatMulIntegerKernel;
const KernelDef kMatMulIntegerKernel = {"matmul_integer", "MatMulInteger",    "int8",
                                        Peak::kInt8,      Functions::Reject,  Functions::Pack,
                                        Functions::Bind,  Functions::Variants};

}  // namespace evoq
