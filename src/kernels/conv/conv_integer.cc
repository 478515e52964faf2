#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

using Functions = Int8Functions<ReadConvGeometry, RejectIntegerLinear, BindIntegerLinear>;

}  // namespace

extern const KernelDef kConvIntegerKernel;
const KernelDef kConvIntegerKernel = {
    .name = "conv_integer",
    .op = "ConvInteger",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = Functions::Reject,
    .pack = Functions::Pack,
    .bind = Functions::Bind,
    .variants = Functions::Variants,
};

}  // namespace evoq
