// An inference request as it is put together from what a client sent, whatever the protocol: each
// input and output is checked against the model's.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/batch.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace evoq::serve {

// The longest time that a request may give itself.
inline constexpr int64_t kMaxTimeoutUs = int64_t{3600} * 1000000;

struct WantedOutput {
  size_t index = 0;  // of the model's outputs
  bool binary = false;
};

struct InferenceRequest {
  std::string id;  // of the caller; "": none
  Tensors inputs;  // by the model's order
  std::vector<WantedOutput> outputs;
  int64_t timeout_us = 0;  // 0: the caller names none
};

// Refers to the ports.
class InferenceBuilder {
 public:
  // Inputs take no more memory together than eight times `body_bytes`, the request's.
  InferenceBuilder(std::span<const Port> inputs, std::span<const Port> outputs, size_t body_bytes)
      : inputs_(inputs), outputs_(outputs), room_(8 * body_bytes + 4096) {
    request_.inputs.resize(inputs.size());
  }

  InferenceRequest& request() { return request_; }
  // Memory for an input, to be filled. Errors: kBadRequest for a name that the model does not have
  // or that came already, another datatype, sizes beyond the request's.
  Served<Tensor*> AddInput(const std::string& name, std::string_view datatype,
                           const std::vector<int64_t>& shape);
  // Errors: kBadRequest for a name that the model does not have or that came already.
  Served<void> AddOutput(const std::string& name, bool binary);
  // The request; where no output was added, all are wanted, `binary` or not. Errors: kBadRequest
  // for inputs that did not come.
  Served<InferenceRequest> Finish(bool binary);

 private:
  std::span<const Port> inputs_, outputs_;
  uint64_t room_;
  InferenceRequest request_;
  std::set<size_t> wanted_;
};

// "input x", for messages.
std::string InputNamed(const std::string& name);
// The tensor's elements from their little-endian bytes. Errors: kBadRequest for another number of
// bytes, and for bytes of BOOL besides 0 and 1.
Served<void> FillFromBytes(std::string_view bytes, const std::string& what, Tensor& tensor);

}  // namespace evoq::serve
