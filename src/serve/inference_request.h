// The Open Inference Protocol's inference request and response (version 2), as JSON and with the
// binary tensor data extension: a JSON header of Inference-Header-Content-Length bytes, behind it
// the tensors' bytes, little-endian, in the order in which the header names them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/inference_builder.h"

namespace evoq::serve {

// The most bytes of JSON that are parsed: a parsed number takes several times its text.
inline constexpr size_t kMaxJsonBytes = size_t{32} << 20;

// Reads a body against what the model takes and gives. `json_bytes`: the JSON header's length,
// where binary data follows; nothing: all of the body is JSON. Sizes are checked before memory is
// taken: for tensors no more than eight times the body. Errors: kBadRequest naming the input or
// key, what it is and what was expected; kTooLarge for more JSON than kMaxJsonBytes.
Served<InferenceRequest> ParseInference(std::string_view body, std::optional<size_t> json_bytes,
                                        std::span<const Port> inputs,
                                        std::span<const Port> outputs);

struct InferenceBody {
  std::string text;
  std::optional<size_t> json_bytes;  // where binary data follows the JSON
};

// The response: the outputs that were asked for, in that order. Errors: kBadRequest for a NaN or an
// infinity in an output that is not asked for as binary data: JSON has none.
Served<InferenceBody> WriteInference(const std::string& model, int64_t version,
                                     const InferenceRequest& request, const Tensors& outputs,
                                     std::span<const Port> ports);

}  // namespace evoq::serve
