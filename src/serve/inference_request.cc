#include "serve/inference_request.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/brief.h"
#include "base/json_file.h"
#include "base/math.h"
#include "serve/datatype.h"
#include "serve/fields.h"
#include "serve/json_tensor.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMaxUs = int64_t{3600} * 1000000;

tl::unexpected<Refusal> Bad(const Status& status) {
  return tl::unexpected(Refusal{Why::kBadRequest, status.error().message(), 0});
}

std::optional<size_t> PortNamed(std::span<const Port> ports, const std::string& name) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
  }
  return std::nullopt;
}

// Parts of a body that have not been read.
class Binary {
 public:
  explicit Binary(std::string_view rest) : rest_(rest) {}
  std::optional<std::string_view> Take(int64_t bytes) {
    if (static_cast<uint64_t>(bytes) > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(bytes));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

// What no request here may ask for.
Status CheckParameters(Fields& parameters) {
  for (const char* key : {"shared_memory_region", "classification", "sequence_id"}) {
    if (!parameters.has(key)) continue;
    const json& value = parameters.Member(key);
    if (value.is_number() && value == 0) continue;
    return Unsupported("{}: not supported by this server", parameters.at(key));
  }
  return {};
}

class Reader {
 public:
  Reader(std::span<const Port> inputs, std::span<const Port> outputs, Binary binary,
         size_t body_bytes)
      : inputs_(inputs), outputs_(outputs), binary_(binary), room_(8 * body_bytes + 4096) {}

  Served<InferenceRequest> Read(const json& root) {
    Fields fields(root, "");
    fields.Read("id", request_.id);
    bool binary_outputs = false;
    if (const json& parameters = fields.Member("parameters"); !parameters.is_null()) {
      Fields all(parameters, "parameters");
      all.Read("timeout", request_.timeout_us, 0, kMaxUs);
      all.Read("binary_data_output", binary_outputs);
      fields.Keep(CheckParameters(all));
      fields.Keep(all.Done(/*others=*/true));
    }
    const json& inputs = fields.Member("inputs");
    const json& outputs = fields.Member("outputs");
    if (const Status read = fields.Done(/*others=*/true); !read) return Bad(read);
    if (auto read = ReadInputs(inputs); !read) return tl::unexpected(read.error());
    if (auto read = ReadOutputs(outputs, binary_outputs); !read)
      return tl::unexpected(read.error());
    return std::move(request_);
  }

 private:
  Served<void> ReadInputs(const json& inputs) {
    if (!inputs.is_array())
      return Refuse(Why::kBadRequest, "inputs: {}, expected a list", Brief(inputs));
    request_.inputs.resize(inputs_.size());
    for (const json& input : inputs) {
      if (auto read = ReadInput(input); !read) return read;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!request_.inputs[i].defined())
        return Refuse(Why::kBadRequest, "input {} is missing", inputs_[i].name);
    }
    if (binary_.left() > 0)
      return Refuse(Why::kBadRequest, "{} bytes of binary data that no input names",
                    binary_.left());
    return {};
  }

  Served<void> ReadInput(const json& input) {
    Fields fields(input, "input");
    std::string name, datatype;
    fields.Read("name", name);
    const std::string what = "input " + Shorten(name);
    const auto index = PortNamed(inputs_, name);
    if (!index) return Refuse(Why::kBadRequest, "{}: the model has no input of that name", what);
    const Port& port = inputs_[*index];
    Tensor& tensor = request_.inputs[*index];
    if (tensor.defined()) return Refuse(Why::kBadRequest, "{} is given twice", what);
    fields.Read("datatype", datatype);
    if (datatype != DatatypeOf(port.type.dtype))
      return Refuse(Why::kBadRequest, "{}: datatype \"{}\", expected {}", what, Shorten(datatype),
                    DatatypeOf(port.type.dtype));
    std::vector<int64_t> shape;
    if (!fields.has("shape")) return Refuse(Why::kBadRequest, "{}: shape is missing", what);
    fields.Read("shape", shape, 0, INT64_MAX);
    int64_t binary_bytes = -1;
    if (const json& parameters = fields.Member("parameters"); !parameters.is_null()) {
      Fields all(parameters, what + ": parameters");
      all.Read("binary_data_size", binary_bytes, 0, INT64_MAX);
      fields.Keep(CheckParameters(all));
      fields.Keep(all.Done(/*others=*/true));
    }
    const json& data = fields.Member("data");
    if (const Status read = fields.Done(/*others=*/true); !read) return Bad(read);
    auto made = Make(port.type, std::move(shape), what);
    if (!made) return tl::unexpected(made.error());
    tensor = std::move(*made);
    if (binary_bytes < 0) return FillFromJson(data, what, tensor);
    if (!data.is_null())
      return Refuse(Why::kBadRequest, "{}: both data and binary_data_size", what);
    return FillFromBinary(binary_bytes, what, tensor);
  }

  // A tensor that is no larger than the body can fill.
  Served<Tensor> Make(TensorType type, std::vector<int64_t> sizes, const std::string& what) {
    constexpr size_t kMostAxes = 64;
    constexpr int64_t kMostBesideZero = int64_t{1} << 26;
    const auto bytes_each = static_cast<int64_t>(DTypeBits(type.dtype) / 8);
    const auto elements = CheckedProduct(sizes);
    const auto bytes = elements ? CheckedMul(*elements, bytes_each) : std::nullopt;
    if (sizes.size() > kMostAxes || !bytes || static_cast<uint64_t>(*bytes) > room_)
      return Refuse(Why::kBadRequest, "{}: shape {} is larger than the request", what,
                    BracketedBriefly(std::span<const int64_t>(sizes)));
    if (*bytes == 0 && std::any_of(sizes.begin(), sizes.end(),
                                   [](int64_t size) { return size > kMostBesideZero; }))
      return Refuse(Why::kBadRequest, "{}: shape {}, expected sizes of at most {} beside a 0", what,
                    BracketedBriefly(std::span<const int64_t>(sizes)), kMostBesideZero);
    room_ -= static_cast<uint64_t>(*bytes);
    type.shape = Shape(sizes);
    return Tensor::Allocate(std::move(type));
  }

  Served<void> FillFromBinary(int64_t bytes, const std::string& what, Tensor& tensor) {
    if (static_cast<uint64_t>(bytes) != tensor.bytes())
      return Refuse(Why::kBadRequest, "{}: binary_data_size {}, expected {} for its shape", what,
                    bytes, tensor.bytes());
    const size_t left = binary_.left();
    const auto taken = binary_.Take(bytes);
    if (!taken)
      return Refuse(Why::kBadRequest, "{}: {} bytes of binary data, only {} are left", what, bytes,
                    left);
    if (bytes > 0) std::memcpy(tensor.mutable_raw(), taken->data(), taken->size());
    if (tensor.dtype() != DType::kBool) return {};
    const auto bad = std::find_if(taken->begin(), taken->end(), [](char b) { return b & ~1; });
    if (bad == taken->end()) return {};
    return Refuse(Why::kBadRequest, "{}: byte {} of BOOL data is {}, expected 0 or 1", what,
                  bad - taken->begin(), static_cast<int>(static_cast<unsigned char>(*bad)));
  }

  Served<void> ReadOutputs(const json& outputs, bool binary) {
    if (outputs.is_null() || (outputs.is_array() && outputs.empty())) {
      for (size_t i = 0; i < outputs_.size(); ++i) request_.outputs.push_back({i, binary});
      return {};
    }
    if (!outputs.is_array())
      return Refuse(Why::kBadRequest, "outputs: {}, expected a list", Brief(outputs));
    std::set<size_t> seen;
    for (const json& output : outputs) {
      Fields fields(output, "output");
      std::string name;
      fields.Read("name", name);
      bool its_binary = binary;
      if (const json& parameters = fields.Member("parameters"); !parameters.is_null()) {
        Fields all(parameters, "output " + Shorten(name) + ": parameters");
        all.Read("binary_data", its_binary);
        fields.Keep(CheckParameters(all));
        fields.Keep(all.Done(/*others=*/true));
      }
      if (const Status read = fields.Done(/*others=*/true); !read) return Bad(read);
      const auto index = PortNamed(outputs_, name);
      if (!index)
        return Refuse(Why::kBadRequest, "output {}: the model has no output of that name",
                      Shorten(name));
      if (!seen.insert(*index).second)
        return Refuse(Why::kBadRequest, "output {} is asked for twice", Shorten(name));
      request_.outputs.push_back({*index, its_binary});
    }
    return {};
  }

  std::span<const Port> inputs_, outputs_;
  Binary binary_;
  uint64_t room_;
  InferenceRequest request_;
};

}  // namespace

Served<InferenceRequest> ParseInference(std::string_view body, std::optional<size_t> json_bytes,
                                        std::span<const Port> inputs,
                                        std::span<const Port> outputs) {
  if (json_bytes && *json_bytes > body.size())
    return Refuse(Why::kBadRequest, "Inference-Header-Content-Length {}, but the body has {} bytes",
                  *json_bytes, body.size());
  const std::string_view text = body.substr(0, json_bytes.value_or(body.size()));
  if (text.size() > kMaxJsonBytes)
    return Refuse(Why::kTooLarge, "{} bytes of JSON, expected at most {}: send binary tensor data",
                  text.size(), kMaxJsonBytes);
  const Result<json> root = ParseJson(text);
  if (!root) return Refuse(Why::kBadRequest, "{}", root.error().message());
  return Reader(inputs, outputs, Binary(body.substr(text.size())), body.size()).Read(*root);
}

Served<InferenceBody> WriteInference(const std::string& model, int64_t version,
                                     const InferenceRequest& request, const Tensors& outputs,
                                     std::span<const Port> ports) {
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  InferenceBody body;
  std::string& text = body.text;
  text = fmt::format(R"({{"model_name":{},"model_version":"{}",)", quoted(model), version);
  if (!request.id.empty()) text += fmt::format(R"("id":{},)", quoted(request.id));
  text += R"("outputs":[)";
  bool binary = false;
  for (const WantedOutput& wanted : request.outputs) {
    const Tensor& tensor = outputs[wanted.index];
    if (&wanted != request.outputs.data()) text += ',';
    text += fmt::format(R"({{"name":{},"datatype":"{}","shape":[{}],)",
                        quoted(ports[wanted.index].name), DatatypeOf(tensor.dtype()),
                        fmt::join(tensor.sizes(), ","));
    if (wanted.binary) {
      binary = true;
      text += fmt::format(R"("parameters":{{"binary_data_size":{}}}}})", tensor.bytes());
      continue;
    }
    text += R"("data":)";
    if (!AppendJson(tensor, text))
      return Refuse(Why::kBadRequest,
                    "output {} has a NaN or an infinity, which JSON does not carry: ask for binary "
                    "data",
                    ports[wanted.index].name);
    text += '}';
  }
  text += "]}";
  if (!binary) return body;
  body.json_bytes = text.size();
  for (const WantedOutput& wanted : request.outputs) {
    const Tensor& tensor = outputs[wanted.index];
    if (wanted.binary) text.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  return body;
}

}  // namespace evoq::serve
