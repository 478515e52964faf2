// Python's arrays <-> tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

// Python values that tensors point into. Dropped with the GIL held, after the run.
class ArrayInputs {
 public:
  // The value as a tensor of the dtype of `type`; a quantized type is taken over. Row-major aligned
  // memory of the CPU is pointed to, never written; other layouts are copied. Takes numpy arrays
  // (with ml_dtypes for bfloat16, float8, int4, ...), whatever speaks DLPack or the buffer
  // protocol, and numbers or nested lists, which become arrays of `type`'s dtype; str for strings;
  // lists for sequences; None or the value for optionals. `type` without a dtype takes any array as
  // it is. Errors: kUsage, naming the input.
  Result<Tensor> Take(nanobind::handle value, const TensorType& type, const std::string& name);

 private:
  Result<Tensor> TakeTensor(nanobind::handle value, const TensorType& type,
                            const std::string& name);
  Result<Tensor> TakeStrings(nanobind::handle value, const std::string& name);
  Result<Tensor> TakeExtended(nanobind::handle value, DType dtype, const std::string& name);
  Result<Tensor> Point(nanobind::ndarray<nanobind::ro> array, DType dtype, const std::string& name);
  std::vector<nanobind::ndarray<nanobind::ro>> kept_;
};

// A numpy array over the tensor's memory, which it keeps alive; the tensor must own it
// (SharedEngine::Run). Types of fewer than 8 bits get a byte per element, str are objects; a
// sequence is a list, an empty optional None. Needs the GIL. Errors: kUnsupported where the type
// needs the package ml_dtypes and it is missing.
Result<nanobind::object> ToPython(const Tensor& tensor);

}  // namespace evoq
