// CONCATENATION, SPLIT, SPLIT_V, PACK and UNPACK.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// Of axes 0 to 3 of the file's order, those of N, C, H, W.
constexpr int64_t kPlanarAxis[] = {0, 2, 3, 1};

Attrs AxisAttr(int64_t axis) { return Attrs::Of("axis", axis); }

Status Concatenation(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::ConcatenationOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(o->axis(), to.output(0).rank()));
  bool planar = to.output(0).rank() == 4 && to.AllPlanar();
  for (size_t i = 0; i < to.inputs(); ++i) planar = planar && to.input(i).rank() == 4;
  std::vector<ValueId> parts;
  for (size_t i = 0; i < to.inputs(); ++i) parts.push_back(planar ? to.Planar(i) : to.Real(i));
  const ValueId joined =
      to.Apply("Concat", std::move(parts), AxisAttr(planar ? kPlanarAxis[axis] : axis));
  EVOQ_ASSIGN(const ValueId y, to.Activated(joined, o->activation()));
  return planar ? to.SetPlanar(0, y) : to.Set(0, y);
}

// Splits input `data` along the axis in input `axis_input`, in parts of `sizes` (empty: equal).
Status SplitInto(Translator& to, size_t data, size_t axis_input,
                 const std::vector<int64_t>& sizes) {
  EVOQ_ASSIGN(const int64_t given, to.Int(axis_input));
  const int rank = to.input(data).rank();
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(given, rank));
  Attrs attrs = AxisAttr(axis);
  std::vector<ValueId> inputs = {to.Real(data)};
  if (sizes.empty()) {
    attrs.Set("num_outputs", static_cast<int64_t>(to.outputs()));
  } else {
    inputs.push_back(to.Int64Constant(sizes));
  }
  const std::vector<ValueId> parts =
      to.ApplyMany("Split", std::move(inputs), to.outputs(), std::move(attrs));
  for (size_t i = 0; i < parts.size(); ++i) EVOQ_TRY(to.Set(i, parts[i]));
  return {};
}

Status Split(Translator& to) {
  EVOQ_ASSIGN(const int64_t given, to.Int(0));
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(given, to.input(1).rank()));
  const int64_t size = to.input(1).sizes[static_cast<size_t>(axis)];
  const auto parts = static_cast<int64_t>(to.outputs());
  if (size >= 0 && size % parts != 0)
    return InvalidInput("{} elements on axis {} in {} equal parts", size, axis, parts);
  return SplitInto(to, 1, 0, {});
}

// One size may be -1: the rest.
Status SplitV(Translator& to) {
  EVOQ_ASSIGN(std::vector<int64_t> sizes, to.Ints(1));
  EVOQ_ASSIGN(const int64_t given, to.Int(2));
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(given, to.input(0).rank()));
  if (sizes.size() != to.outputs())
    return InvalidInput("{} sizes for {} outputs", sizes.size(), to.outputs());
  int64_t rest = to.input(0).sizes[static_cast<size_t>(axis)];
  int64_t* open = nullptr;
  for (int64_t& size : sizes) {
    if (size < -1 || size > INT32_MAX || (size == -1 && open != nullptr))
      return InvalidInput("a part of size {}", size);
    if (size == -1) {
      open = &size;
    } else {
      rest -= size;
    }
  }
  if (open != nullptr) {
    if (rest < 0) return Unsupported("a part of what is left of {}", rest);
    *open = rest;
  }
  return SplitInto(to, 0, 2, sizes);
}

Status Pack(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::PackOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(o->axis(), to.input(0).rank() + 1));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < to.inputs(); ++i)
    parts.push_back(to.Apply("Unsqueeze", {to.Real(i), to.Int64Constant({axis})}));
  return to.Set(0, to.Apply("Concat", std::move(parts), AxisAttr(axis)));
}

Status Unpack(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::UnpackOptions>());
  EVOQ_ASSIGN(const int64_t axis, to.AxisOf(o->axis(), to.input(0).rank()));
  const int64_t size = to.input(0).sizes[static_cast<size_t>(axis)];
  if (size != static_cast<int64_t>(to.outputs()))
    return InvalidInput("{} outputs of {} elements on axis {}", to.outputs(), size, axis);
  const std::vector<ValueId> parts =
      to.ApplyMany("Split", {to.Real(0), to.Int64Constant(std::vector<int64_t>(to.outputs(), 1))},
                   to.outputs(), AxisAttr(axis));
  for (size_t i = 0; i < parts.size(); ++i)
    EVOQ_TRY(to.Set(i, to.Apply("Squeeze", {parts[i], to.Int64Constant({axis})})));
  return {};
}

}  // namespace

extern const OpRow kConcatenation = {.name = "CONCATENATION",
                                     .number = 2,
                                     .least_inputs = 1,
                                     .most_inputs = -1,
                                     .translate = Concatenation,
                                     .sizes = SizesOfConcatenation};
extern const OpRow kSplit = {.name = "SPLIT",
                             .number = 49,
                             .least_inputs = 2,
                             .most_inputs = 2,
                             .outputs = -1,
                             .translate = Split};
extern const OpRow kPack = {.name = "PACK",
                            .number = 83,
                            .least_inputs = 1,
                            .most_inputs = -1,
                            .translate = Pack,
                            .sizes = SizesOfPack};
extern const OpRow kUnpack = {.name = "UNPACK", .number = 88, .outputs = -1, .translate = Unpack};
extern const OpRow kSplitV = {.name = "SPLIT_V",
                              .number = 102,
                              .least_inputs = 3,
                              .most_inputs = 3,
                              .outputs = -1,
                              .translate = SplitV};

}  // namespace evoq::tflite
