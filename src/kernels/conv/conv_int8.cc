#include "kernels/gemm/int8_geometry.h"
#include "kernels/gemm/int8_kernels.h"
#include "kernels/gemm/int8_variants.h"

namespace evoq {
namespace {

std::optional<Rejection> Reject(const KernelCall& call) {
  Int8Geometry geometry;
  if (auto rejection = ReadConvGeometry(call, geometry)) return rejection;
  return RejectQuantizedLinear(call, geometry, 0);
}

Result<Tensor> Pack(const KernelCall& call, size_t input) {
  Int8Geometry geometry;
  if (auto rejection = ReadConvGeometry(call, geometry)) return Unsupported("{}", rejection->why);
  return PackInt8Weights(call, input, geometry);
}

Result<BoundKernel> Bind(const KernelCall& call, const BindOptions& options) {
  Int8Geometry geometry;
  if (auto rejection = ReadConvGeometry(call, geometry)) return Unsupported("{}", rejection->why);
  return BindQuantizedLinear(call, geometry, options);
}

std::vector<std::string> Variants(const KernelCall& call, const BindOptions& options) {
  Int8Geometry geometry;
  if (ReadConvGeometry(call, geometry)) return {};
  return Int8Variants(geometry, options);
}

}  // namespace

extern const KernelDef kConvInt8;
const KernelDef kConvInt8 = {"conv_int8", "Conv", "int8", Peak::kInt8, Reject, Pack, Bind, Variants, Int8InPlace};

}  // namespace evoq
