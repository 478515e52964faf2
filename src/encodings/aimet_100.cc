// Version 1.0.0: two lists of entries with flat lists of scales and offsets. Which axis has the
// channels or blocks is not written: output channels, and blocks of input channels.
#include <cmath>

#include "encodings/fields.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr const char* kSections[] = {"activation_encodings", "param_encodings"};

struct EncType {
  const char* name;
  Granularity granularity;
};
constexpr EncType kEncTypes[] = {{"PER_TENSOR", Granularity::kTensor},
                                 {"PER_CHANNEL", Granularity::kChannel},
                                 {"PER_BLOCK", Granularity::kBlock},
                                 {"LPBQ", Granularity::kBlock}};

Result<std::vector<double>> FlatField(const json& entry, const char* key) {
  EVOQ_ASSIGN(NestedNumbers nested, NumbersField(entry, key));
  if (nested.sizes.size() > 1) return InvalidInput("\"{}\" is nested, expected a flat list", key);
  return std::move(nested.numbers);
}

// Scales that are integers times a float32 number of their channel.
Status ReadLpbq(const json& entry, const std::vector<float>& channels, Encoding& e) {
  EVOQ_ASSIGN(const int64_t bits, IntField(entry, "compressed_bw", 1, 32));
  EVOQ_ASSIGN(const std::vector<double> blocks, FlatField(entry, "per_block_int_scale"));
  if (blocks.size() % channels.size() != 0)
    return InvalidInput("{} scales of blocks for {} channels, expected as many of each",
                        blocks.size(), channels.size());
  for (const double scale : blocks) {
    if (!(scale >= 1 && scale <= 65535) || scale != std::floor(scale))
      return InvalidInput("\"per_block_int_scale\" has {}, expected whole numbers from 1 to 65535",
                          scale);
    e.block_scales.push_back(static_cast<int64_t>(scale));
  }
  e.bits = static_cast<int>(bits);
  e.channel_scales = channels;
  e.sizes = {static_cast<int64_t>(blocks.size())};
  e.zero_points.assign(blocks.size(), 0);
  return {};
}

Status ReadEntry(const json& entry, Encoding& e) {
  EVOQ_ASSIGN(const std::string type, TextField(entry, "enc_type"));
  EVOQ_ASSIGN(const std::string dtype, TextField(entry, "dtype"));
  const EncType* known = std::ranges::find(kEncTypes, type, &EncType::name);
  if (known == std::end(kEncTypes))
    return InvalidInput(
        "\"enc_type\" is \"{}\", expected PER_TENSOR, PER_CHANNEL, PER_BLOCK or LPBQ", type);
  if (dtype != "INT" && dtype != "FLOAT")
    return InvalidInput("\"dtype\" is \"{}\", expected \"INT\" or \"FLOAT\"", dtype);
  EVOQ_ASSIGN(const int64_t bits, IntField(entry, "bw", 1, 32));
  e.bits = static_cast<int>(bits);
  e.granularity = known->granularity;
  e.real = dtype == "FLOAT";
  if (e.real) return {};
  EVOQ_ASSIGN(e.is_signed, BoolField(entry, "is_sym"));
  EVOQ_ASSIGN(const std::vector<double> numbers, FlatField(entry, "scale"));
  EVOQ_ASSIGN(const std::vector<float> scales, AsScales(numbers, "scale"));
  if (e.granularity == Granularity::kBlock) {
    EVOQ_ASSIGN(e.block, IntField(entry, "block_size", 1, int64_t{1} << 31));
  }
  if (type == "LPBQ") return ReadLpbq(entry, scales, e);
  EVOQ_ASSIGN(std::vector<double> offsets, FlatField(entry, "offset"));
  if (offsets.size() != scales.size())
    return InvalidInput("{} scales and {} offsets, expected as many of both", scales.size(),
                        offsets.size());
  if (e.granularity == Granularity::kTensor && scales.size() != 1)
    return InvalidInput("{} scales of a PER_TENSOR entry, expected 1", scales.size());
  if (entry.contains("zero_point_shift")) {
    EVOQ_ASSIGN(const std::vector<double> shifts, FlatField(entry, "zero_point_shift"));
    if (shifts.size() != offsets.size() && shifts.size() != 1)
      return InvalidInput("{} numbers in \"zero_point_shift\" and {} offsets", shifts.size(),
                          offsets.size());
    for (size_t i = 0; i < offsets.size(); ++i) offsets[i] += shifts[i % shifts.size()];
  }
  e.scales = scales;
  e.sizes = {static_cast<int64_t>(scales.size())};
  SetOffsets(offsets, e);
  return {};
}

Result<std::vector<Encoding>> Read(const json& root) {
  std::vector<Encoding> encodings;
  for (const char* section : kSections) {
    const auto it = root.find(section);
    if (it == root.end() || !it->is_array())
      return InvalidInput("\"{}\" is missing, expected a list of entries", section);
    for (size_t i = 0; i < it->size(); ++i) {
      EVOQ_ASSIGN(Encoding e, NamedEntry((*it)[i], section, i));
      e.parameter = section == std::string_view(kSections[1]);
      EVOQ_TRY(WithContext(ReadEntry((*it)[i], e), e.place));
      encodings.push_back(std::move(e));
    }
  }
  return encodings;
}

// The order in which blocks are listed: of matrices whose output channels come last, output
// channels first.
std::vector<size_t> Order(const Encoding& e) {
  std::vector<size_t> order(e.scales.size());
  const bool swap = e.granularity == Granularity::kBlock && e.sizes.size() == 2 && e.axis == 0;
  const size_t rows = swap ? static_cast<size_t>(e.sizes[0]) : 1, columns = order.size() / rows;
  for (size_t i = 0; i < order.size(); ++i) order[i] = swap ? i % rows * columns + i / rows : i;
  return order;
}

Result<json> Write(std::span<const Encoding> encodings) {
  json root = {{kSections[0], json::array()}, {kSections[1], json::array()}};
  for (const Encoding& e : encodings) {
    json entry = {{"name", e.name}, {"bw", e.bits}};
    if (e.real) {
      entry["dtype"] = "FLOAT";
      entry["enc_type"] = "PER_TENSOR";
    } else {
      json scales = json::array(), offsets = json::array();
      for (const size_t i : Order(e)) {
        scales.push_back(e.scales[i]);
        offsets.push_back(OffsetOf(e, i));
      }
      const auto type = std::ranges::find(kEncTypes, e.granularity, &EncType::granularity);
      entry.update({{"dtype", "INT"},
                    {"enc_type", type->name},
                    {"is_sym", e.is_signed},
                    {"scale", std::move(scales)},
                    {"offset", std::move(offsets)}});
      if (e.granularity == Granularity::kBlock) entry["block_size"] = e.block;
    }
    root[kSections[e.parameter]].push_back(std::move(entry));
  }
  root["excluded_layers"] = json::array();
  root["quantizer_args"] = json::object();
  return root;
}

}  // namespace

extern const EncodingsVersion kEncodings100 = {
    .name = "1.0.0",
    .doc = "flat lists of scales and offsets; what AIMET writes unless asked",
    .read = Read,
    .write = Write,
};

}  // namespace evoq
