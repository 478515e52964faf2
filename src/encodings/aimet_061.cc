// Version 0.6.1: two sections, tensor -> list of entries, one for the tensor or one per channel.
#include <cmath>

#include "base/text.h"
#include "encodings/fields.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr const char* kSections[] = {"activation_encodings", "param_encodings"};

// The first of a tensor's entries says what all are; min and max must not contradict them.
Status ReadOne(const json& entry, size_t index, Encoding& e, std::vector<double>& scales,
               std::vector<double>& offsets) {
  EVOQ_ASSIGN(const std::string dtype, TextField(entry, "dtype"));
  if (dtype != "int" && dtype != "float")
    return InvalidInput("\"dtype\" is \"{}\", expected \"int\" or \"float\"", dtype);
  EVOQ_ASSIGN(const int64_t bits, IntField(entry, "bitwidth", 1, 32));
  const bool real = dtype == "float";
  if (index > 0 && (real != e.real || bits != e.bits))
    return InvalidInput("the entries of a tensor differ in \"dtype\" or \"bitwidth\"");
  e.real = real;
  e.bits = static_cast<int>(bits);
  if (real) return {};
  EVOQ_ASSIGN(const bool symmetric, BoolField(entry, "is_symmetric"));
  if (index > 0 && symmetric != e.is_signed)
    return InvalidInput("the entries of a tensor differ in \"is_symmetric\"");
  e.is_signed = symmetric;
  EVOQ_ASSIGN(const NestedNumbers scale, NumbersField(entry, "scale"));
  EVOQ_ASSIGN(const NestedNumbers offset, NumbersField(entry, "offset"));
  if (!scale.sizes.empty() || !offset.sizes.empty())
    return InvalidInput("\"scale\" and \"offset\" are lists, expected numbers");
  const std::pair<const char*, double> ends[] = {{"min", 0}, {"max", std::ldexp(1.0, e.bits) - 1}};
  for (const auto& [key, step] : ends) {
    if (!entry.contains(key)) continue;
    EVOQ_ASSIGN(const NestedNumbers end, NumbersField(entry, key));
    const double wanted = (step + offset.numbers[0]) * scale.numbers[0];
    // AIMET's own files round their ends to within a step of the integers.
    if (!(std::fabs(end.numbers[0] - wanted) <= 1.5 * std::fabs(scale.numbers[0])))
      return InvalidInput("\"{}\" is {}, but \"scale\" and \"offset\" give {}", key, end.numbers[0],
                          wanted);
  }
  scales.push_back(scale.numbers[0]);
  offsets.push_back(offset.numbers[0]);
  return {};
}

Result<Encoding> ReadTensor(const std::string& name, const json& list, const char* section) {
  Encoding e;
  e.name = name;
  e.place = fmt::format("{}[\"{}\"]", section, name);
  e.parameter = section == std::string_view(kSections[1]);
  if (!list.is_array() || list.empty())
    return InvalidInput("{}: expected a list of at least one entry", e.place);
  std::vector<double> scales, offsets;
  for (size_t i = 0; i < list.size(); ++i)
    EVOQ_TRY(
        WithContext(ReadOne(list[i], i, e, scales, offsets), fmt::format("{}[{}]", e.place, i)));
  if (e.real) return e;
  EVOQ_ASSIGN(e.scales, WithContext(AsScales(scales, "scale"), e.place));
  SetOffsets(offsets, e);
  if (e.scales.size() > 1) {
    e.granularity = Granularity::kChannel;
    e.sizes = {static_cast<int64_t>(e.scales.size())};
  }
  return e;
}

Result<std::vector<Encoding>> Read(const json& root) {
  std::vector<Encoding> encodings;
  for (const char* section : kSections) {
    const auto it = root.find(section);
    if (it == root.end() || !it->is_object())
      return InvalidInput("\"{}\" is missing, expected an object of tensor: [entry, ...]", section);
    for (const auto& [name, list] : it->items()) {
      EVOQ_ASSIGN(Encoding e, ReadTensor(name, list, section));
      encodings.push_back(std::move(e));
    }
  }
  return encodings;
}

Result<json> Write(std::span<const Encoding> encodings) {
  json root = {{kSections[0], json::object()}, {kSections[1], json::object()}};
  for (const Encoding& e : encodings) {
    json list = json::array();
    if (e.granularity == Granularity::kBlock)
      return Unsupported("{}: version 0.6.1 has no blocks, write 1.0.0 or newer", e.name);
    if (e.real) list.push_back({{"dtype", "float"}, {"bitwidth", e.bits}});
    for (size_t i = 0; i < e.scales.size(); ++i) {
      const double scale = e.scales[i], offset = static_cast<double>(OffsetOf(e, i));
      list.push_back({{"dtype", "int"},
                      {"bitwidth", e.bits},
                      {"is_symmetric", e.is_signed ? "True" : "False"},
                      {"min", offset * scale},
                      {"max", (offset + std::ldexp(1.0, e.bits) - 1) * scale},
                      {"scale", scale},
                      {"offset", OffsetOf(e, i)}});
    }
    root[kSections[e.parameter]][e.name] = std::move(list);
  }
  root["quantizer_args"] = json::object();
  return root;
}

}  // namespace

extern const EncodingsVersion kEncodings061 = {
    .name = "0.6.1",
    .doc = "an entry per tensor or channel, by tensor name",
    .read = Read,
    .write = Write,
};

}  // namespace evoq
