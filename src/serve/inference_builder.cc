#include "serve/inference_builder.h"

#include <algorithm>
#include <cstring>

#include "base/brief.h"
#include "base/math.h"
#include "serve/datatype.h"

namespace evoq::serve {
namespace {

std::optional<size_t> PortNamed(std::span<const Port> ports, const std::string& name) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace

std::string InputNamed(const std::string& name) { return "input " + Shorten(name); }

Served<Tensor*> InferenceBuilder::AddInput(const std::string& name, std::string_view datatype,
                                           const std::vector<int64_t>& shape) {
  constexpr size_t kMostAxes = 64;
  constexpr int64_t kMostBesideZero = int64_t{1} << 26;
  const std::string what = InputNamed(name);
  const auto index = PortNamed(inputs_, name);
  if (!index) return Refuse(Why::kBadRequest, "{}: the model has no input of that name", what);
  TensorType type = inputs_[*index].type;
  Tensor& tensor = request_.inputs[*index];
  if (tensor.defined()) return Refuse(Why::kBadRequest, "{} is given twice", what);
  if (datatype != DatatypeOf(type.dtype))
    return Refuse(Why::kBadRequest, "{}: datatype \"{}\", expected {}", what, Shorten(datatype),
                  DatatypeOf(type.dtype));
  const auto bytes_each = static_cast<int64_t>(DTypeBits(type.dtype) / 8);
  const auto elements = CheckedProduct(shape);
  const auto bytes = elements ? CheckedMul(*elements, bytes_each) : std::nullopt;
  if (shape.size() > kMostAxes || !bytes || static_cast<uint64_t>(*bytes) > room_)
    return Refuse(Why::kBadRequest, "{}: shape {} is larger than the request", what,
                  BracketedBriefly(std::span<const int64_t>(shape)));
  if (*bytes == 0 &&
      std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size > kMostBesideZero; }))
    return Refuse(Why::kBadRequest, "{}: shape {}, expected sizes of at most {} beside a 0", what,
                  BracketedBriefly(std::span<const int64_t>(shape)), kMostBesideZero);
  room_ -= static_cast<uint64_t>(*bytes);
  type.shape = Shape(shape);
  tensor = Tensor::Allocate(std::move(type));
  return &tensor;
}

Served<void> InferenceBuilder::AddOutput(const std::string& name, bool binary) {
  const auto index = PortNamed(outputs_, name);
  if (!index)
    return Refuse(Why::kBadRequest, "output {}: the model has no output of that name",
                  Shorten(name));
  if (!wanted_.insert(*index).second)
    return Refuse(Why::kBadRequest, "output {} is asked for twice", Shorten(name));
  request_.outputs.push_back({*index, binary});
  return {};
}

Served<InferenceRequest> InferenceBuilder::Finish(bool binary) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!request_.inputs[i].defined())
      return Refuse(Why::kBadRequest, "input {} is missing", inputs_[i].name);
  }
  if (request_.outputs.empty()) {
    for (size_t i = 0; i < outputs_.size(); ++i) request_.outputs.push_back({i, binary});
  }
  return std::move(request_);
}

Served<void> FillFromBytes(std::string_view bytes, const std::string& what, Tensor& tensor) {
  if (bytes.size() != tensor.bytes())
    return Refuse(Why::kBadRequest, "{}: {} bytes of data, expected {} for its shape", what,
                  bytes.size(), tensor.bytes());
  if (!bytes.empty()) std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  if (tensor.dtype() != DType::kBool) return {};
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](char b) { return b & ~1; });
  if (bad == bytes.end()) return {};
  return Refuse(Why::kBadRequest, "{}: byte {} of BOOL data is {}, expected 0 or 1", what,
                bad - bytes.begin(), static_cast<int>(static_cast<unsigned char>(*bad)));
}

}  // namespace evoq::serve
