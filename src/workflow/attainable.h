// The model that `explain` measures beside a quantized one, to tell what a fault costs from what
// the hardware and the kernels allow.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "models/models.h"

namespace evoq {

// The float model as evoq quantizes it by default, with nothing excluded. Nodes of `leave_out` that
// stand inside the model and keep the shape, at the sample's sizes, are left out, as if they cost
// nothing. Its results mean nothing: only its speed counts. `scheme`: "int8" or "bf16"; `sample`:
// inputs that it is calibrated on. Errors: kUnsupported for a model that is no float ONNX model;
// those of quantization.
Result<std::unique_ptr<Engine>> LoadAttainable(const std::string& path, const std::string& scheme,
                                               const std::set<std::string>& leave_out,
                                               const std::vector<Tensor>& sample,
                                               const EngineOptions& options);

}  // namespace evoq
