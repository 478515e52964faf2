// Versions 2.0.0 and 2.1.0: one list of entries with the fields of ONNX's QuantizeLinear. 2.1.0
// adds scales that are quantized themselves.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/math.h"
#include "encodings/fields.h"

namespace evoq {
namespace {

using nlohmann::json;

// "uint4" -> 4 bits without a sign. False for what is no integer type.
bool ParseIntegerType(std::string_view name, Encoding& e) {
  e.is_signed = !name.starts_with("u");
  if (!e.is_signed) name.remove_prefix(1);
  if (!name.starts_with("int")) return false;
  name.remove_prefix(3);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), e.bits);
  return error == std::errc() && end == name.data() + name.size() && e.bits >= 1 && e.bits <= 32;
}

// scales[i] = blocks[i] * channels[j], where j has the indices of i on the axes on which `channels`
// is not of size 1.
Status Multiply(const NestedNumbers& blocks, const NestedNumbers& channels, Encoding& e) {
  const size_t rank = blocks.sizes.size();
  if (channels.sizes.size() != rank)
    return InvalidInput("the scales of channels are nested {} deep and those of blocks {}",
                        channels.sizes.size(), rank);
  for (size_t d = 0; d < rank; ++d) {
    if (channels.sizes[d] != 1 && channels.sizes[d] != blocks.sizes[d])
      return InvalidInput("{} scales of channels for {} of blocks at depth {}", channels.sizes[d],
                          blocks.sizes[d], d);
  }
  std::vector<double> scales;
  for (size_t i = 0; i < blocks.numbers.size(); ++i) {
    size_t rest = i, at = 0, stride = 1;
    for (size_t d = rank; d-- > 0;) {
      const size_t index = rest % static_cast<size_t>(blocks.sizes[d]);
      rest /= static_cast<size_t>(blocks.sizes[d]);
      if (channels.sizes[d] != 1) at += index * stride;
      stride *= static_cast<size_t>(channels.sizes[d]);
    }
    scales.push_back(blocks.numbers[i] * channels.numbers[at]);
  }
  EVOQ_ASSIGN(e.scales, AsScales(scales, "per_block_int_scale"));
  e.sizes = blocks.sizes;
  return {};
}

// y_scale as an object: x, quantized with x_scale (and x_zero_point) on `axis`.
Status ReadQuantizedScale(const json& y_scale, Encoding& e) {
  EVOQ_ASSIGN(NestedNumbers x, NumbersField(y_scale, "x"));
  EVOQ_ASSIGN(NestedNumbers scale, NumbersField(y_scale, "x_scale"));
  if (y_scale.contains("x_zero_point")) {
    EVOQ_ASSIGN(const NestedNumbers zero, NumbersField(y_scale, "x_zero_point"));
    if (zero.numbers.size() != 1 && zero.sizes != x.sizes)
      return InvalidInput("\"x_zero_point\" has {} numbers and \"x\" {}", zero.numbers.size(),
                          x.numbers.size());
    for (size_t i = 0; i < x.numbers.size(); ++i)
      x.numbers[i] -= zero.numbers[i % zero.numbers.size()];
  }
  if (y_scale.contains("block_size")) {
    e.refusal = "its scales are quantized in blocks themselves";
    return {};
  }
  if (scale.numbers.size() == 1) {
    scale.sizes.assign(x.sizes.size(), 1);
  } else if (scale.sizes.size() == 1) {
    const auto rank = static_cast<int64_t>(x.sizes.size());
    EVOQ_ASSIGN(int64_t axis, IntField(y_scale, "axis", -rank, rank - 1));
    if (axis < 0) axis += rank;
    scale.sizes.assign(x.sizes.size(), 1);
    scale.sizes[static_cast<size_t>(axis)] = static_cast<int64_t>(scale.numbers.size());
  }
  return Multiply(x, scale, e);
}

Status ReadScales(const json& entry, Encoding& e) {
  if (entry.contains("per_block_int_scale")) {
    EVOQ_ASSIGN(const NestedNumbers blocks, NumbersField(entry, "per_block_int_scale"));
    EVOQ_ASSIGN(const NestedNumbers channels, NumbersField(entry, "per_channel_float_scale"));
    return Multiply(blocks, channels, e);
  }
  EVOQ_ASSIGN(const json* y_scale, Field(entry, "y_scale"));
  if (y_scale->is_object()) return WithContext(ReadQuantizedScale(*y_scale, e), "\"y_scale\"");
  EVOQ_ASSIGN(NestedNumbers nested, NumbersField(entry, "y_scale"));
  EVOQ_ASSIGN(e.scales, AsScales(nested.numbers, "y_scale"));
  e.sizes = std::move(nested.sizes);
  return {};
}

Status ReadZeros(const json& entry, Encoding& e) {
  e.zero_points.assign(e.scales.size(), 0);
  if (!entry.contains("y_zero_point")) return {};
  EVOQ_ASSIGN(const NestedNumbers zeros, NumbersField(entry, "y_zero_point"));
  if (zeros.numbers.size() != 1 && zeros.sizes != e.sizes)
    return InvalidInput("\"y_zero_point\" has {} numbers and \"y_scale\" {}", zeros.numbers.size(),
                        e.scales.size());
  for (size_t i = 0; i < e.scales.size(); ++i) {
    const double zero = zeros.numbers[i % zeros.numbers.size()];
    if (zero != std::floor(zero) || std::fabs(zero) > 2147483647.0) {
      e.refusal = fmt::format("its zero point {} is no whole number of 32 bits", zero);
      return {};
    }
    e.zero_points[i] = static_cast<int32_t>(zero);
  }
  return {};
}

Status ReadEntry(const json& entry, Encoding& e) {
  EVOQ_ASSIGN(const std::string dtype, TextField(entry, "output_dtype"));
  if (!ParseIntegerType(dtype, e)) {
    if (dtype == "float16" || dtype == "bfloat16" || dtype == "float32" || dtype == "float") {
      e.real = true;
    } else if (dtype.starts_with("float")) {
      e.refusal = fmt::format("it is of {}", dtype);
    } else {
      return InvalidInput(
          "\"output_dtype\" is \"{}\", expected a type of ONNX's QuantizeLinear (int8, uint4, ...)",
          dtype.substr(0, 40));
    }
    return {};
  }
  EVOQ_TRY(ReadScales(entry, e));
  if (!e.refusal.empty()) return {};
  if (entry.contains("axis")) {
    EVOQ_ASSIGN(const int64_t axis, IntField(entry, "axis", -16, 15));
    e.axis = static_cast<int>(axis);
  }
  if (entry.contains("block_size")) {
    EVOQ_ASSIGN(e.block, IntField(entry, "block_size", 0, int64_t{1} << 31));
  }
  EVOQ_TRY(ReadZeros(entry, e));
  e.granularity = e.block > 0       ? Granularity::kBlock
                  : e.sizes.empty() ? Granularity::kTensor
                                    : Granularity::kChannel;
  if (e.granularity == Granularity::kChannel && e.scales.size() == 1 && !e.axis)
    e.granularity = Granularity::kTensor;
  if (e.granularity != Granularity::kTensor && !e.axis)
    return InvalidInput("{} scales without an \"axis\"", e.scales.size());
  if (e.granularity == Granularity::kChannel && e.sizes.size() != 1)
    return InvalidInput("scales nested {} deep without a \"block_size\"", e.sizes.size());
  return {};
}

Result<std::vector<Encoding>> Read(const json& root) {
  const auto list = root.find("encodings");
  if (list == root.end() || !list->is_array())
    return InvalidInput("\"encodings\" is missing, expected a list of entries");
  std::vector<Encoding> encodings;
  for (size_t i = 0; i < list->size(); ++i) {
    EVOQ_ASSIGN(Encoding e, NamedEntry((*list)[i], "encodings", i));
    EVOQ_TRY(WithContext(ReadEntry((*list)[i], e), e.place));
    encodings.push_back(std::move(e));
  }
  return encodings;
}

// The numbers nested as `sizes` say.
template <typename T>
json Nested(const std::vector<T>& numbers, const std::vector<int64_t>& sizes, size_t depth,
            size_t& at) {
  if (depth == sizes.size()) return numbers[at++];
  json list = json::array();
  for (int64_t i = 0; i < sizes[depth]; ++i) list.push_back(Nested(numbers, sizes, depth + 1, at));
  return list;
}
template <typename T>
json Nested(const std::vector<T>& numbers, const std::vector<int64_t>& sizes) {
  size_t at = 0;
  return Nested(numbers, sizes, 0, at);
}

Result<json> Write(std::span<const Encoding> encodings) {
  json list = json::array();
  for (const Encoding& e : encodings) {
    if (e.real) continue;  // what has no entry stays float
    const std::vector<int64_t> sizes =
        e.granularity == Granularity::kTensor ? std::vector<int64_t>() : e.sizes;
    json entry = {{"name", e.name},
                  {"output_dtype", fmt::format("{}int{}", e.is_signed ? "" : "u", e.bits)},
                  {"y_scale", Nested(e.scales, sizes)}};
    if (std::ranges::any_of(e.zero_points, [](int32_t zero) { return zero != 0; }))
      entry["y_zero_point"] = Nested(e.zero_points, sizes);
    if (e.axis) entry["axis"] = *e.axis;
    if (e.block > 0) entry["block_size"] = e.block;
    list.push_back(std::move(entry));
  }
  return json{{"encodings", std::move(list)}};
}

}  // namespace

extern const EncodingsVersion kEncodings200 = {
    .name = "2.0.0",
    .doc = "the fields of ONNX's QuantizeLinear",
    .read = Read,
    .write = Write,
};

extern const EncodingsVersion kEncodings210 = {
    .name = "2.1.0",
    .doc = "as 2.0.0, and scales may be quantized themselves",
    .read = Read,
    .write = Write,
};

}  // namespace evoq
