#include "kernels/gemm/int8_geometry.h"
#include "kernels/gemm/int8_kernels.h"
#include "kernels/gemm/int8_variants.h"

namespace evoq {
namespace {

std::optional<Rejection> Reject(const KernelCall& call) {
  Int8Geometry geometry;
  if (auto rejection = ReadMatMulGeometry(call, geometry)) return rejection;
  return RejectIntegerLinear(call, geometry);
}

Result<Tensor> Pack(const KernelCall& call, size_t input) {
  Int8Geometry geometry;
  if (auto rejection = ReadMatMulGeometry(call, geometry)) return Unsupported("{}", rejection->why);
  return PackInt8Weights(call, input, geometry);
}

Result<BoundKernel> Bind(const KernelCall& call, const BindOptions& options) {
  Int8Geometry geometry;
  if (auto rejection = ReadMatMulGeometry(call, geometry)) return Unsupported("{}", rejection->why);
  return BindIntegerLinear(call, geometry, options);
}

std::vector<std::string> Variants(const KernelCall& call, const BindOptions& options) {
  Int8Geometry geometry;
  if (ReadMatMulGeometry(call, geometry)) return {};
  return Int8Variants(geometry, options);
}

}  // namespace

extern const KernelDef kMatMulIntegerKernel;
const KernelDef kMatMulIntegerKernel = {"matmul_integer", "MatMulInteger", "int8", Peak::kInt8, Reject, Pack, Bind, Variants};

}  // namespace evoq
