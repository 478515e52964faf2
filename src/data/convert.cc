#include "data/convert.h"

namespace evoq {

Result<Tensor> ToInputType(const Tensor& tensor, DType wanted) {
  if (tensor.dtype() == wanted) return tensor;
  if (!IsFloat(wanted))
    return InvalidInput("elements are {}, expected {} for the model's input",
                        DTypeName(tensor.dtype()), DTypeName(wanted));
  EVOQ_ASSIGN(const Tensor real, ToFloat32(tensor));
  if (wanted == DType::kFloat32) return real;
  Tensor out = Tensor::Allocate(TensorType(wanted, real.shape()));
  const float* x = real.data<float>();
  for (int64_t i = 0; i < out.elements(); ++i) {
    if (wanted == DType::kFloat64) {
      out.mutable_data<double>()[i] = x[i];
    } else {
      out.mutable_data<uint16_t>()[i] =
          wanted == DType::kFloat16 ? FloatToHalf(x[i]) : FloatToBfloat16(x[i]);
    }
  }
  return out;
}

}  // namespace evoq
