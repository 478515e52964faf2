#include "serve/inference_request.h"

#include <nlohmann/json.hpp>

#include "base/brief.h"
#include "serve/body_json.h"
#include "serve/datatype.h"
#include "serve/fields.h"
#include "serve/json_tensor.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

tl::unexpected<Refusal> Bad(const Status& status) {
  return tl::unexpected(Refusal{Why::kBadRequest, status.error().message(), 0});
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
      : builder_(inputs, outputs, body_bytes), binary_(binary) {}

  Served<InferenceRequest> Read(const json& root) {
    InferenceRequest& request = builder_.request();
    Fields fields(root, "");
    fields.Read("id", request.id);
    bool binary_outputs = false;
    if (const json& parameters = fields.Member("parameters"); !parameters.is_null()) {
      Fields all(parameters, "parameters");
      all.Read("timeout", request.timeout_us, 0, kMaxTimeoutUs);
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
    auto all = builder_.Finish(binary_outputs);
    if (all && binary_.left() > 0)
      return Refuse(Why::kBadRequest, "{} bytes of binary data that no input names",
                    binary_.left());
    return all;
  }

 private:
  Served<void> ReadInputs(const json& inputs) {
    if (!inputs.is_array())
      return Refuse(Why::kBadRequest, "inputs: {}, expected a list", Brief(inputs));
    for (const json& input : inputs) {
      if (auto read = ReadInput(input); !read) return read;
    }
    return {};
  }

  Served<void> ReadInput(const json& input) {
    Fields fields(input, "input");
    std::string name, datatype;
    fields.Read("name", name);
    fields.Read("datatype", datatype);
    const std::string what = InputNamed(name);
    std::vector<int64_t> shape;
    const bool shaped = fields.has("shape");
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
    const auto tensor = builder_.AddInput(name, datatype, shape);
    if (!tensor) return tl::unexpected(tensor.error());
    if (!shaped) return Refuse(Why::kBadRequest, "{}: shape is missing", what);
    if (binary_bytes < 0) return FillFromJson(data, what, **tensor);
    if (!data.is_null())
      return Refuse(Why::kBadRequest, "{}: both data and binary_data_size", what);
    return FillFromBinary(binary_bytes, what, **tensor);
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
    return FillFromBytes(*taken, what, tensor);
  }

  Served<void> ReadOutputs(const json& outputs, bool binary) {
    if (outputs.is_null()) return {};
    if (!outputs.is_array())
      return Refuse(Why::kBadRequest, "outputs: {}, expected a list", Brief(outputs));
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
      if (auto added = builder_.AddOutput(name, its_binary); !added) return added;
    }
    return {};
  }

  InferenceBuilder builder_;
  Binary binary_;
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
  const Result<json> root = ParseBody(text);
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
