#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

using Functions = Int8Functions<ReadConvGeometry, RejectIntegerLinear, BindIntegerLinear>;

}  // namespace

extern const KernelDef kConvIntegerKernel;
const KernelDef kConvIntegerKernel = {"conv_integer",  "ConvInteger",      "int8",
                                      Peak::kInt8,     Functions::Reject,  Functions::Pack,
                                      Functions::Bind, Functions::Variants};

}  // namespace evoq
