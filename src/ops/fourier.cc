// DFT, STFT, the windows (Hann, Hamming, Blackman) and MelWeightMatrix.
#include "ops/fourier.h"

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 26;

// ---- DFT(x, dft_length?, axis?)

}  // namespace

Result<DftPlan> DftPlanOf(const Node& node, int64_t axis, int rank) {
  if (rank < 2) return InvalidInput("input 0 has rank {}, expected 2 or more", rank);
  DftPlan plan;
  EVOQ_ASSIGN(plan.axis, NormalizeAxis(axis, rank));
  if (plan.axis == rank - 1) return InvalidInput("axis {} holds real and imaginary parts", axis);
  plan.inverse = node.attrs.Int("inverse") != 0;
  plan.onesided = node.attrs.Int("onesided") != 0;
  return plan;
}

namespace {

InferResult InferDft(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  for (const char* name : {"inverse", "onesided"}) EVOQ_TRY(IntAttr(args.node, name, 0));
  for (size_t i : {1, 2}) {
    if (args.has(i)) EVOQ_TRY(CheckIndexType(args, i));
  }
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto axis, ConstantInts(args, 2));
  if (!x.shape.ranked()) return SameAsInput0(args);
  if (args.has(2) && (!axis || axis->size() != 1)) {
    if (axis) return InvalidInput("input 2 has {} axes, expected 1", axis->size());
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>(x.shape.rank())))};
  }
  EVOQ_ASSIGN(const DftPlan plan, DftPlanOf(args.node, axis ? (*axis)[0] : -2, x.shape.rank()));
  Shape shape = x.shape;
  Dim size = shape[plan.axis];
  if (plan.inverse && plan.onesided && size.known()) size = Dim(2 * (size.value - 1));
  if (args.has(1)) {
    if (length && length->size() != 1)
      return InvalidInput("input 1 has {} lengths, expected 1", length->size());
    size = length ? Dim((*length)[0]) : Dim();
  }
  if (size.known() && (size.value < 1 || size.value > kMaxLength))
    return InvalidInput("a transform of length {}, expected 1 to {}", size.value, kMaxLength);
  if (plan.onesided && !plan.inverse && size.known()) size = Dim(size.value / 2 + 1);
  shape[plan.axis] = size.known() ? size : Dim();
  const Dim& parts = shape[shape.rank() - 1];
  if (parts.known() && parts.value != 1 && parts.value != 2)
    return InvalidInput("input 0 is {}, expected 1 or 2 parts last", x.ToString());
  shape[shape.rank() - 1] = Dim(plan.inverse && plan.onesided ? 1 : 2);
  return std::vector<TensorType>{TensorType(x.dtype, shape)};
}

// ---- STFT(signal, frame_step, window?, frame_length?)

struct Frames {
  Dim count, length;
};

Result<Frames> FramesOf(const InferArgs& args) {
  Frames frames;
  for (size_t i : {1, 3}) {
    if (args.has(i)) EVOQ_TRY(CheckIndexType(args, i));
  }
  EVOQ_ASSIGN(const auto step, ConstantInts(args, 1));
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 3));
  if (args.has(3)) {
    if (length && !length->empty()) frames.length = Dim((*length)[0]);
  } else if (args.has(2)) {
    EVOQ_TRY(CheckRank(args, 2, 1));
    if (args.inputs[2].shape.ranked()) frames.length = args.inputs[2].shape[0];
  } else {
    return InvalidInput("neither a window nor a frame_length");
  }
  if (frames.length.known() && (frames.length.value < 1 || frames.length.value > kMaxLength))
    return InvalidInput("frames of {} values, expected 1 to {}", frames.length.value, kMaxLength);
  if (step && (step->size() != 1 || (*step)[0] < 1))
    return InvalidInput("frame_step {}, expected at least 1", step->empty() ? 0 : (*step)[0]);
  const Dim& total = args.inputs[0].shape[1];
  if (!step || !total.known() || !frames.length.known()) return frames;
  if (total.value < frames.length.value)
    return InvalidInput("a signal of {} values, shorter than a frame of {}", total.value,
                        frames.length.value);
  frames.count = Dim(1 + (total.value - frames.length.value) / (*step)[0]);
  return frames;
}

InferResult InferStft(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckFloat(args, 2));
  EVOQ_ASSIGN(const int64_t onesided, IntAttr(args.node, "onesided", 1));
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return SameAsInput0(args);
  if (x.shape.rank() != 2 && x.shape.rank() != 3)
    return InvalidInput("input 0 is {}, expected rank 2 or 3", x.ToString());
  if (x.shape.rank() == 3 && x.shape[2].known() && x.shape[2].value != 1 && x.shape[2].value != 2)
    return InvalidInput("input 0 is {}, expected 1 or 2 parts last", x.ToString());
  EVOQ_ASSIGN(const Frames frames, FramesOf(args));
  Dim bins = frames.length;
  if (onesided != 0 && bins.known()) bins = Dim(bins.value / 2 + 1);
  return std::vector<TensorType>{
      TensorType(x.dtype, Shape(std::vector<Dim>{x.shape[0], frames.count, bins, Dim(2)}))};
}

// ---- windows of `size` values

}  // namespace

Result<DType> SpectrumType(const Node& node) {
  EVOQ_ASSIGN(const int64_t number, IntAttr(node, "output_datatype", 1));
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype || (!IsFloat(*dtype) && !IsInteger(*dtype)) || DTypeBits(*dtype) < 8)
    return Unsupported("attribute output_datatype is {}, expected a number type", number);
  return *dtype;
}

namespace {

InferResult InferWindow(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 0));
  EVOQ_TRY(IntAttr(args.node, "periodic", 1));
  EVOQ_ASSIGN(const DType dtype, SpectrumType(args.node));
  EVOQ_ASSIGN(const auto size, ConstantInts(args, 0));
  if (!size) return std::vector<TensorType>{TensorType(dtype, Shape(std::vector<Dim>(1)))};
  if (size->size() != 1 || (*size)[0] < 0 || (*size)[0] > kMaxLength)
    return InvalidInput("input 0 must be one size from 0 to {}", kMaxLength);
  return std::vector<TensorType>{TensorType(dtype, Shape{(*size)[0]})};
}

// ---- MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)

}  // namespace

Result<std::pair<int64_t, int64_t>> MelSizes(int64_t mels, int64_t length) {
  if (mels < 1 || length < 1 || mels > kMaxLength || length > kMaxLength ||
      CheckedMul(mels, length).value_or(kMaxLength) >= kMaxLength)
    return InvalidInput("{} mel bins of a transform of {}", mels, length);
  return std::pair{length / 2 + 1, mels};
}

namespace {

InferResult InferMel(const InferArgs& args) {
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckIndexType(args, i));
  for (size_t i : {3, 4}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_ASSIGN(const DType dtype, SpectrumType(args.node));
  EVOQ_ASSIGN(const auto mels, ConstantInts(args, 0));
  EVOQ_ASSIGN(const auto length, ConstantInts(args, 1));
  if (!mels || !length || mels->size() != 1 || length->size() != 1)
    return std::vector<TensorType>{TensorType(dtype, Shape(std::vector<Dim>(2)))};
  EVOQ_ASSIGN(const auto sizes, MelSizes((*mels)[0], (*length)[0]));
  return std::vector<TensorType>{TensorType(dtype, Shape{sizes.first, sizes.second})};
}

}  // namespace

extern const OpDef kBlackmanWindow = {.name = "BlackmanWindow", .infer = InferWindow};
extern const OpDef kDFT = {.name = "DFT", .max_inputs = 3, .infer = InferDft};
extern const OpDef kHammingWindow = {.name = "HammingWindow", .infer = InferWindow};
extern const OpDef kHannWindow = {.name = "HannWindow", .infer = InferWindow};
extern const OpDef kMelWeightMatrix = {
    .name = "MelWeightMatrix", .min_inputs = 5, .max_inputs = 5, .infer = InferMel};
extern const OpDef kSTFT = {.name = "STFT", .min_inputs = 2, .max_inputs = 4, .infer = InferStft};

}  // namespace evoq
