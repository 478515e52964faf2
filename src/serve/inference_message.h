// The Open Inference Protocol's inference request and response (version 2), as the messages that
// gRPC carries: tensors as raw bytes, one for each input, or as lists of their type.
#pragma once

#include <span>
#include <string>

#include "serve/inference.pb.h"
#include "serve/inference_builder.h"

namespace evoq::serve {

// Reads a request against what the model takes and gives. `bytes`: of the whole message. Errors:
// kBadRequest naming the input or parameter, what it is and what was expected.
Served<InferenceRequest> ReadInference(const inference::ModelInferRequest& message, size_t bytes,
                                       std::span<const Port> inputs, std::span<const Port> outputs);

// The response: the outputs that were asked for, in that order, as raw bytes. Errors: kTooLarge
// for more than a message holds, 2 GiB.
Served<inference::ModelInferResponse> InferenceMessage(const std::string& model, int64_t version,
                                                       const InferenceRequest& request,
                                                       const Tensors& outputs,
                                                       std::span<const Port> ports);

}  // namespace evoq::serve
