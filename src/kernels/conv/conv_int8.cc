#include "kernels/gemm/int8_kernels.h"

namespace evoq {
namespace {

std::optional<Rejection> Reject(const KernelCall& call, const Int8Geometry& geometry) {
  return RejectQuantizedLinear(call, geometry, /*w_axis=*/0);
}

using Functions = Int8Functions<ReadConvGeometry, Reject, BindQuantizedLinear>;

}  // namespace

extern const KernelDef kConvInt8;
const KernelDef kConvInt8 = {
    "conv_int8",       "Conv",          "int8",          Peak::kInt8,
    Functions::Reject, Functions::Pack, Functions::Bind, Functions::Variants,
    Int8InPlace};

}  // namespace evoq
