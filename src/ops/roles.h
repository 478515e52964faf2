// What the inputs of an operator are to it, and how its axes, precision and channels pass through:
// the facts by which other rooms treat operators, so that none of them lists operators by name.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace evoq {

// What an input is to its operator.
enum class Role : uint8_t {
  kData,       // what the operator computes on; float32, or quantized with the operator
  kWeight,     // a matrix or filter that training fits; kernels pack it
  kBias,       // added once per output channel; int32 under integer arithmetic
  kResidual,   // added to every output element before the activation (evoq's extension of ONNX)
  kTable,      // 256 bytes through which the output goes (evoq's extension)
  kFill,       // a real number where there is no data, of the output's kind: Pad
  kBound,      // a real number that limits the data: Clip
  kParameter,  // sizes, axes, scales of normalization: keeps its type when the data is quantized
  kScale,      // of a quantization that is written as inputs
  kZeroPoint,  // of a quantization that is written as inputs
};

// What an operator does to its values, where it changes their precision alone.
enum class PrecisionChange : uint8_t { kNone, kCast, kQuantize, kDequantize };

// How an operator uses the axes of input 0, and so what becomes of it when they are permuted. What
// is element by element needs none: OpDef::elementwise.
enum class AxisUse : uint8_t {
  kByPosition,  // each axis has its meaning by its place, or the operator moves elements between
                // axes
  kAttribute,   // attribute `axis` names one; a variadic operator's inputs have it alike
  kAttributeReduced,  // attribute `axis` names one that goes, or stays as 1 with `keepdims`
  kTrailing,          // attribute `axis` names the first of those that it normalizes over
  kInputReduced,      // input 1 names those that go, or stay as 1 with `keepdims`
  kFirstListed,       // input 3 names those that input 1 is about; without it the first ones
  kAllListed,         // input 3 names those that input 1 is about; without it all
  kGathered,          // attribute `axis` names one that the axes of input 1 replace
  kTargetShape,       // input 1 is the shape of the output
  kShapeOf,           // the output is the shape of input 0
  kSizeOf,            // the output is the number of elements of input 0
};

// A product of data and weight, with channels: y[.., m, ..] = sum over c of x[.., c, ..] w[m, c].
// Axes count from the end where they are negative.
struct LinearForm {
  int out_axis;                   // of the weight: numbers output channels
  int in_axis;                    // of the weight: numbers input channels
  int channel_axis;               // of x and y
  bool grouped = false;           // attribute `group` splits the channels
  bool outputs_by_group = false;  // out_axis counts the outputs of one group, in_axis all inputs;
                                  // else out_axis counts all outputs, in_axis the inputs of a group
  const char* transposed = nullptr;  // an attribute that, when it is not 0, swaps the two axes
  bool two_operands = false;         // the weight may be computed: the product of two activations
  // The operator that computes the same on integers (of a real one), on real numbers (of an integer
  // one), and with the scales of the data found at run time (of an integer one, domain evoq).
  const char* integer_form = nullptr;
  const char* real_form = nullptr;
  const char* dynamic_form = nullptr;
};

struct OpDef;

// The form of the node's operator, nullptr where it is no product or evoq lacks it.
const LinearForm* LinearFormOf(const Node& node);
// The role of the node's input i; kData for what the operator's row does not name.
Role RoleOf(const Node& node, size_t i);
// The position of the first input of this role, -1 where the operator has none.
int InputWith(const OpDef& op, Role role);
// The operator has weights of real numbers: the weighted ones and the recurrent ones.
bool HasRealWeights(const Node& node);

// A product of real numbers by ONNX: Conv, ConvTranspose, Gemm, MatMul.
bool IsWeighted(const Node& node);
// Of those, one that takes evoq's residual and activation: all but Gemm, which becomes a MatMul.
bool IsLinear(const Node& node);
// A linear operator whose weight is no constant: a product of two activations, as in attention.
bool HasComputedOperand(const Graph& graph, const Node& node);
// The axis of the node's weight, of this rank, that numbers output channels. Needs a LinearForm.
int WeightAxis(const Node& node, int rank);
// The axis of x or y, of this rank, that numbers channels. Needs a LinearForm.
int ChannelAxis(const Node& node, int rank);
// Whether output channels lie along one axis of the weight: not where several groups each have
// their own. Needs a LinearForm.
bool HasOneOutputAxis(const Node& node);

// Whether the node changes its values' precision and nothing else, by scales that are in the model.
bool IsConversion(const Node& node);
bool IsQuantize(const Node& node);    // QuantizeLinear
bool IsDequantize(const Node& node);  // DequantizeLinear
// Whether the operator only quantizes or dequantizes, also by scales that it finds at run time;
// false for an operator that evoq lacks (nullptr).
bool QuantizesOrDequantizes(const OpDef* op);

// Whether an input or output of the node is quantized to integers of 16 bits.
bool ComputesSixteenBits(const Graph& graph, const Node& node);

// The input that holds indices (OpDef::indices), -1 where the operator has none.
int IndexInput(const Node& node);
// Whether the output tells the sizes of input 0, whose elements are not read: AxisUse::kShapeOf and
// kSizeOf.
bool GivesSizes(const Node& node);
// Whether the operator reads or writes at indices that an input holds.
bool ReadsByIndex(const Node& node);
// Whether indices pick along one axis of input 0: AxisUse::kGathered.
bool Gathers(const Node& node);

// Which channels each element of a weight belongs to. Needs a LinearForm and a weight of rank 2 or
// more whose elements are counted in row-major order.
class WeightIndex {
 public:
  WeightIndex(const Node& node, std::span<const int64_t> sizes);

  int64_t outputs() const { return outputs_; }  // all output channels
  int64_t inputs() const { return inputs_; }    // input channels of one group
  int64_t groups() const { return groups_; }
  int64_t taps() const { return taps_; }  // elements for each pair of channels

  // The output channel that element i adds to.
  int64_t OutputOf(int64_t i) const {
    const int64_t m = i / out_stride_ % out_size_;
    return by_group_ ? i / in_stride_ % in_size_ / inputs_ * out_size_ + m : m;
  }
  // The channel of x that element i multiplies.
  int64_t InputOf(int64_t i) const {
    const int64_t c = i / in_stride_ % in_size_;
    return by_group_ ? c : OutputOf(i) / (outputs_ / groups_) * inputs_ + c;
  }

 private:
  int64_t out_size_, in_size_, out_stride_, in_stride_;
  int64_t outputs_, inputs_, groups_, taps_;
  bool by_group_;
};

}  // namespace evoq
