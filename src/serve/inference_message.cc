#include "serve/inference_message.h"

#include <limits>

#include "base/brief.h"
#include "serve/datatype.h"

namespace evoq::serve {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

bool IsNone(const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kBoolParam: return !value.bool_param();
    case InferParameter::kInt64Param: return value.int64_param() == 0;
    case InferParameter::kUint64Param: return value.uint64_param() == 0;
    case InferParameter::kStringParam: return value.string_param().empty();
    default: return false;
  }
}

// What no request here may ask for.
Served<void> CheckParameters(const Parameters& parameters, const std::string& where) {
  for (const char* key : {"shared_memory_region", "classification", "sequence_id"}) {
    const auto found = parameters.find(key);
    if (found != parameters.end() && !IsNone(found->second))
      return Refuse(Why::kBadRequest, "{}: {}: not supported by this server", where, key);
  }
  return {};
}

Served<void> ReadTimeout(const Parameters& parameters, int64_t& timeout_us) {
  const auto found = parameters.find("timeout");
  if (found == parameters.end()) return {};
  const InferParameter& value = found->second;
  const bool is_signed = value.parameter_choice_case() == InferParameter::kInt64Param;
  const bool is_unsigned = value.parameter_choice_case() == InferParameter::kUint64Param;
  if (is_signed) timeout_us = value.int64_param();
  if (is_unsigned)
    timeout_us = value.uint64_param() <= static_cast<uint64_t>(kMaxTimeoutUs)
                     ? static_cast<int64_t>(value.uint64_param())
                     : -1;
  if ((is_signed || is_unsigned) && timeout_us >= 0 && timeout_us <= kMaxTimeoutUs) return {};
  return Refuse(Why::kBadRequest, "parameters: timeout: {}, expected a whole number from 0 to {}",
                Shorten(value.ShortDebugString()), kMaxTimeoutUs);
}

// Numbers of the list as the tensor's, which may be of a smaller type.
template <typename T, typename List>
Served<void> Fill(const List& list, const char* member, const std::string& what, Tensor& tensor) {
  if (static_cast<size_t>(list.size()) != static_cast<size_t>(tensor.elements()))
    return Refuse(Why::kBadRequest, "{}: {} {}, expected {}", what, list.size(), member,
                  tensor.elements());
  T* to = tensor.mutable_data<T>();
  for (const auto value : list) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
        return Refuse(Why::kBadRequest, "{}: {} in {}, expected numbers of {}", what, value, member,
                      DatatypeOf(tensor.dtype()));
    }
    *to++ = static_cast<T>(value);
  }
  return {};
}

Served<void> FillFromContents(const InferTensorContents& contents, const std::string& what,
                              Tensor& tensor) {
  const auto& ints = contents.int_contents();
  const auto& uints = contents.uint_contents();
  switch (tensor.dtype()) {
    case DType::kBool: return Fill<bool>(contents.bool_contents(), "bool_contents", what, tensor);
    case DType::kInt8: return Fill<int8_t>(ints, "int_contents", what, tensor);
    case DType::kInt16: return Fill<int16_t>(ints, "int_contents", what, tensor);
    case DType::kInt32: return Fill<int32_t>(ints, "int_contents", what, tensor);
    case DType::kInt64:
      return Fill<int64_t>(contents.int64_contents(), "int64_contents", what, tensor);
    case DType::kUint8: return Fill<uint8_t>(uints, "uint_contents", what, tensor);
    case DType::kUint16: return Fill<uint16_t>(uints, "uint_contents", what, tensor);
    case DType::kUint32: return Fill<uint32_t>(uints, "uint_contents", what, tensor);
    case DType::kUint64:
      return Fill<uint64_t>(contents.uint64_contents(), "uint64_contents", what, tensor);
    case DType::kFloat32:
      return Fill<float>(contents.fp32_contents(), "fp32_contents", what, tensor);
    case DType::kFloat64:
      return Fill<double>(contents.fp64_contents(), "fp64_contents", what, tensor);
    default:
      return Refuse(Why::kBadRequest, "{}: {} has no contents of its own, expected raw data", what,
                    DatatypeOf(tensor.dtype()));
  }
}

}  // namespace

Served<InferenceRequest> ReadInference(const ModelInferRequest& message, size_t bytes,
                                       std::span<const Port> inputs,
                                       std::span<const Port> outputs) {
  InferenceBuilder builder(inputs, outputs, bytes);
  builder.request().id = message.id();
  const auto refused = [](const auto& served) { return tl::unexpected(served.error()); };
  if (auto read = CheckParameters(message.parameters(), "parameters"); !read) return refused(read);
  if (auto read = ReadTimeout(message.parameters(), builder.request().timeout_us); !read)
    return refused(read);
  const bool raw = message.raw_input_contents_size() > 0;
  if (raw && message.raw_input_contents_size() != message.inputs_size())
    return Refuse(Why::kBadRequest, "{} raw_input_contents, expected one for each of {} inputs",
                  message.raw_input_contents_size(), message.inputs_size());
  for (int i = 0; i < message.inputs_size(); ++i) {
    const ModelInferRequest::InferInputTensor& input = message.inputs(i);
    const std::string what = InputNamed(input.name());
    if (auto read = CheckParameters(input.parameters(), what); !read) return refused(read);
    const auto tensor = builder.AddInput(input.name(), input.datatype(),
                                         {input.shape().begin(), input.shape().end()});
    if (!tensor) return refused(tensor);
    if (raw && input.has_contents())
      return Refuse(Why::kBadRequest, "{}: both contents and raw_input_contents", what);
    auto filled = raw ? FillFromBytes(message.raw_input_contents(i), what, **tensor)
                      : FillFromContents(input.contents(), what, **tensor);
    if (!filled) return refused(filled);
  }
  for (const auto& output : message.outputs()) {
    auto added = CheckParameters(output.parameters(), "output " + Shorten(output.name()));
    if (added) added = builder.AddOutput(output.name(), /*binary=*/true);
    if (!added) return refused(added);
  }
  return builder.Finish(/*binary=*/true);
}

Served<inference::ModelInferResponse> InferenceMessage(const std::string& model, int64_t version,
                                                       const InferenceRequest& request,
                                                       const Tensors& outputs,
                                                       std::span<const Port> ports) {
  // What is left of 2 GiB holds names and shapes.
  constexpr size_t kMostBytes = (size_t{1} << 31) - (size_t{1} << 24);
  size_t bytes = 0;
  for (const WantedOutput& wanted : request.outputs) bytes += outputs[wanted.index].bytes();
  if (bytes > kMostBytes)
    return Refuse(Why::kTooLarge, "outputs of {} bytes, expected at most {} for a message", bytes,
                  kMostBytes);
  inference::ModelInferResponse response;
  response.set_model_name(model);
  response.set_model_version(std::to_string(version));
  response.set_id(request.id);
  for (const WantedOutput& wanted : request.outputs) {
    const Tensor& tensor = outputs[wanted.index];
    auto& output = *response.add_outputs();
    output.set_name(ports[wanted.index].name);
    output.set_datatype(DatatypeOf(tensor.dtype()));
    for (int64_t size : tensor.sizes()) output.add_shape(size);
    response.add_raw_output_contents(tensor.raw(), tensor.bytes());
  }
  return response;
}

}  // namespace evoq::serve
