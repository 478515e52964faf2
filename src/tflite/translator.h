// One operator of a TensorFlow Lite graph at a time becomes nodes of the dialect (docs/graph.md).
//
// TensorFlow Lite computes on channels-last values, the dialect's spatial operators on
// channels-first ones. A tensor of rank 4 therefore has up to two values, the file's order
// ("plain") and N, C, H, W ("planar"), each made of the other by a Transpose when somebody asks for
// it: between two convolutions there is none.
//
// Operators of quantized tensors are written as DequantizeLinear, operator, QuantizeLinear, which
// the pass import-qdq joins: rows need not know whether a tensor is quantized.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/activation.h"
#include "tflite/op_row.h"
#include "tflite/tensors.h"
#include "tflite/variables.h"

namespace evoq::tflite {

// Zeros of the numbers that stand for the tensor's: real ones where it is quantized.
inline Tensor ZeroOf(const TensorFacts& facts, Shape shape) {
  return Tensor::Allocate(
      TensorType(facts.quant ? DType::kFloat32 : facts.dtype, std::move(shape)));
}

inline constexpr char kNotes[] = "tflite.notes";  // the fact
// What follows a state's name in the name of the output that is its value after the run.
inline constexpr char kNext[] = ".next";

class Translator {
 public:
  explicit Translator(const File& file) : file_(file), variables_(file) {}

  // The graph with all operators, without types. Errors: with the operator's number and name.
  Result<Graph> Run();

  // ---- the operator at hand: what rows ask

  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return outputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] >= 0; }
  const TensorFacts& input(size_t i) const { return facts_[Index(inputs_[i])]; }
  const TensorFacts& output(size_t i) const { return facts_[Index(outputs_[i])]; }
  bool is_constant(size_t i) const { return constants_[Index(inputs_[i])].defined(); }
  // Its options; those of a file that leaves them out are all 0. Errors: kInvalidInput where the
  // file holds those of another operator.
  template <typename T>
  Result<const T*> Options() const {
    if (op_->options_type() == fb::OptionsTraits<T>::enum_value && op_->options() != nullptr)
      return static_cast<const T*>(op_->options());
    if (op_->options_type() != fb::NONE && op_->options() != nullptr)
      return InvalidInput("options of kind {}, expected {}", static_cast<int>(op_->options_type()),
                          static_cast<int>(fb::OptionsTraits<T>::enum_value));
    return flatbuffers::GetRoot<T>(kNoOptions);
  }
  // Integers of a constant input. Errors: kUnsupported where it is computed.
  Result<std::vector<int64_t>> Ints(size_t i) const;
  // The bytes of a custom operator's options.
  std::span<const uint8_t> custom_options() const;
  // A constant input of one real number; nothing where it is another one.
  std::optional<float> FloatOf(size_t i) const;
  // The size of an axis of input i, and the elements of an input of integers, as far as they are
  // known before a run (tflite/sizes.h).
  Size SizeOf(size_t i, size_t axis) const;
  Sizes SizesIn(size_t i) const;
  // An input of one integer, and an axis, which may count from the end.
  Result<int64_t> Int(size_t i) const;
  Result<int64_t> AxisOf(int64_t axis, int rank) const;
  // Errors: kInvalidInput for another rank.
  Status CheckRank(size_t i, int rank) const;

  // ---- values of inputs, as real numbers or plain integers

  ValueId Real(size_t i);
  // The real (0) or imaginary (1) part of complex numbers.
  ValueId Part(size_t i, int64_t part);
  // Errors: kInvalidInput where only one of input 0 and output 0 is of complex numbers.
  Status CheckSameElements() const;
  // Of rank 4: N, C, H, W.
  ValueId Planar(size_t i);
  // The integers of an input as int64, which ONNX's shapes, axes and indices are.
  ValueId Int64s(size_t i);
  // The weights with axis k being the file's axis perm[k].
  Result<ValueId> Weight(size_t i, const std::vector<int64_t>& perm);
  // The bias of a product of inputs x and w: int32 at the product of their scales where both are
  // quantized, else float. Invalid where the operator has none.
  Result<ValueId> Bias(size_t i, size_t x, size_t w);
  // Whether all computed inputs have planar values already, so that an operator that is indifferent
  // to the order of axes had better compute on these.
  bool AllPlanar() const;
  // Input i for an element-wise operator on planar values: of rank 4 planar, constants of lower
  // rank with their axes in the places that broadcasting gives them there.
  ValueId PlanarOperand(size_t i);
  bool CanBePlanarOperand(size_t i) const;

  // ---- writing

  ValueId Apply(const char* op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> ApplyMany(const char* op, std::vector<ValueId> inputs, size_t outputs,
                                 Attrs attrs = {});
  ValueId Constant(Tensor tensor);
  ValueId Int64Constant(const std::vector<int64_t>& values);
  ValueId FloatConstant(float value);
  ValueId Transposed(ValueId value, const std::vector<int64_t>& perm);

  // A node with subgraphs: those of these numbers, whose inputs are the operator's from `first` on.
  // Constants among these go into the subgraphs, the others follow `inputs`. Errors: for subgraphs
  // of other inputs, or of another number of outputs than the operator's.
  Result<std::vector<ValueId>> ApplyGraphs(const char* op, std::vector<ValueId> inputs,
                                           const std::vector<int32_t>& graphs, size_t first);

  // A loop over the operator's inputs: while the first subgraph says so, the second one makes the
  // next values of them. What it hands on as it came is no state of the loop. Errors: as above.
  Result<std::vector<ValueId>> ApplyLoop(int32_t condition, int32_t body);

  // Says of the operator at hand what its nodes do not do as the file means it: a line of the fact
  // tflite.notes.
  void Note(const std::string& text);
  // Output i is this value, in the file's order or planar.
  Status Set(size_t i, ValueId value);
  Status SetPlanar(size_t i, ValueId value);
  // Output i is input k, with its quantization, also where that is a constant.
  Status SetSame(size_t i, size_t k);
  // Attributes of a product or an Add, which take an activation by the schema's number.
  Status AddActivation(int activation, Attrs& attrs) const;
  // The same as nodes of their own behind `value`; where output 0 is quantized, on its integers.
  Result<ValueId> Activated(ValueId value, int activation);

  // ---- variables: docs/tflite.md

  // Gives variables what this subgraph assigns to them.
  Status InitializeVariables(int32_t subgraph);
  Status ReadVariable();    // input 0 is the variable, output 0 its value
  Status AssignVariable();  // input 0 is the variable, input 1 its value

 private:
  struct Forms {
    ValueId plain, planar, real, real_planar;
  };
  static size_t Index(int32_t tensor) { return static_cast<size_t>(tensor); }
  static const uint8_t kNoOptions[];

  // Of a subgraph that an operator of `outer` runs.
  Translator(const File& file, const Translator& outer)
      : file_(file), variables_(file), depth_(outer.depth_ + 1) {}
  // What an input of a subgraph is: a constant, or a value of the graph at hand, as real numbers.
  struct Binding {
    TensorFacts facts;
    Tensor constant;
    ValueId value;
  };
  std::vector<Binding> BindingsFrom(size_t first) const;
  Result<Graph> RunBody(std::vector<Binding> given);
  Result<Graph> RunLoopBody(int32_t condition, std::vector<Binding> given,
                            const std::vector<bool>& states);
  Result<std::vector<ValueId>> Inline(int32_t subgraph, const std::vector<Binding>& given);
  Result<ValueId> InlineCondition(int32_t subgraph, const std::vector<Binding>& given);
  Status BindInputs(const std::vector<Binding>& given);
  Status CheckCount(const flatbuffers::Vector<int32_t>* list, const char* what,
                    size_t expected) const;
  Result<ValueId> RealOutput(size_t i);
  ValueId AddOuterInput(const Binding& given);
  Result<Graph> Finished();

  Status ReadTensors();
  Status CheckOperators() const;
  Status AddInputs();
  Status AddOutputs();
  Status AddStates();
  ValueId Cast(ValueId value, DType dtype, const std::string& name);
  void AddOutput(size_t tensor, const std::string& name);
  Status TranslateAll();
  Status Translate(size_t op);
  Status Prepare(const OpRow& row);
  Status CheckElements(const OpRow& row) const;
  Status MakeConstant(size_t tensor);
  ValueId Plain(size_t tensor);
  ValueId PlanarOf(size_t tensor);
  ValueId Dequantized(size_t tensor, ValueId value, const char* suffix);
  Status Define(size_t i, ValueId value, bool planar);
  Status CheckSameValues(size_t tensor, const TensorFacts& given) const;
  Status SetForms(size_t tensor, size_t from);
  Result<Variable*> VariableAtHand();
  void AddNote(const std::string& name, const std::string& text);
  TensorType QuantType(size_t tensor) const;

  const File& file_;
  Graph graph_;
  std::vector<TensorFacts> facts_;  // by tensor
  std::vector<Tensor> constants_;   // by tensor: defined once it was asked for
  std::vector<Forms> forms_;        // by tensor
  std::map<int32_t, Sizes> sizes_;  // by computed tensor
  Variables variables_;
  int depth_ = 0;  // subgraphs around this one
  const fb::Operator* op_ = nullptr;
  std::vector<int32_t> inputs_, outputs_;  // tensors; -1: left out
};

}  // namespace evoq::tflite
