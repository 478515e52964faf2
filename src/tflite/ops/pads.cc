// PAD, PADV2 and MIRROR_PAD. Paddings are [rank, 2]: before and after, of each axis.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// Input 1 as ONNX has it: all before, then all after; of a planar value where `planar`.
Result<ValueId> Pads(Translator& to, bool planar) {
  if (!to.is_constant(1)) {
    const ValueId columns = to.Transposed(to.Int64s(1), {1, 0});
    return to.Apply("Reshape", {columns, to.Int64Constant({-1})});
  }
  EVOQ_ASSIGN(const std::vector<int64_t> given, to.Ints(1));
  const auto rank = static_cast<size_t>(to.input(0).rank());
  if (given.size() != 2 * rank)
    return InvalidInput("{} paddings, expected {}", given.size(), 2 * rank);
  constexpr size_t kPlanar[] = {0, 3, 1, 2};
  std::vector<int64_t> pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const size_t axis = planar ? kPlanar[d] : d;
    pads[d] = given[2 * axis];
    pads[rank + d] = given[2 * axis + 1];
    if (pads[d] < 0 || pads[rank + d] < 0)
      return InvalidInput("paddings {} and {} of axis {}", pads[d], pads[rank + d], axis);
  }
  return to.Int64Constant(pads);
}

Status SetPadded(Translator& to, const char* mode, bool valued) {
  const bool planar = to.input(0).rank() == 4 && to.is_constant(1);
  EVOQ_ASSIGN(const ValueId pads, Pads(to, planar));
  std::vector<ValueId> inputs = {planar ? to.Planar(0) : to.Real(0), pads};
  if (valued) inputs.push_back(to.Apply("Reshape", {to.Real(2), to.Int64Constant({})}));
  const ValueId y = to.Apply("Pad", std::move(inputs), Attrs::Of("mode", mode));
  return planar ? to.SetPlanar(0, y) : to.Set(0, y);
}

Status Pad(Translator& to) { return SetPadded(to, "constant", false); }
Status PadV2(Translator& to) { return SetPadded(to, "constant", true); }

// Elements of each axis by their numbers: ... 1 0 | 0 1 2 ... n-1 | n-1 n-2 ...
Status SetSymmetric(Translator& to, const std::vector<int64_t>& pads) {
  const auto rank = static_cast<size_t>(to.input(0).rank());
  if (pads.size() != 2 * rank)
    return InvalidInput("{} paddings, expected {}", pads.size(), 2 * rank);
  ValueId y = to.Real(0);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = pads[2 * axis], after = pads[2 * axis + 1],
                  size = to.input(0).sizes[axis];
    if (before == 0 && after == 0) continue;
    if (size < 0) return Unsupported("mode SYMMETRIC on axis {}, whose size is open", axis);
    if (before < 0 || after < 0 || before > size || after > size)
      return InvalidInput("paddings {} and {} of axis {} of size {}", before, after, axis, size);
    std::vector<int64_t> indices;
    for (int64_t i = -before; i < size + after; ++i)
      indices.push_back(i < 0 ? -1 - i : i < size ? i : 2 * size - 1 - i);
    y = to.Apply("Gather", {y, to.Int64Constant(indices)},
                 Attrs::Of("axis", static_cast<int64_t>(axis)));
  }
  return to.Set(0, y);
}

// SYMMETRIC repeats the border itself, which ONNX has for one element only, as edge.
Status MirrorPad(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::MirrorPadOptions>());
  constexpr int kReflect = 0, kSymmetric = 1;
  if (o->mode() == kReflect) return SetPadded(to, "reflect", false);
  if (o->mode() != kSymmetric) return InvalidInput("mode {}, expected 0 or 1", o->mode());
  EVOQ_ASSIGN(const std::vector<int64_t> pads, to.Ints(1));
  for (int64_t pad : pads) {
    if (pad > 1) return SetSymmetric(to, pads);
  }
  return SetPadded(to, "edge", false);
}

}  // namespace

extern const OpRow kPad = {
    .name = "PAD", .number = 34, .least_inputs = 2, .most_inputs = 2, .translate = Pad};
extern const OpRow kPadV2 = {
    .name = "PADV2", .number = 60, .least_inputs = 3, .most_inputs = 3, .translate = PadV2};
extern const OpRow kMirrorPad = {.name = "MIRROR_PAD",
                                 .number = 100,
                                 .least_inputs = 2,
                                 .most_inputs = 2,
                                 .translate = MirrorPad};

}  // namespace evoq::tflite
