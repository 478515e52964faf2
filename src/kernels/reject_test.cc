// What kernels do not take, clause by clause: a call that each accepts, then the same with one
// thing changed and the code it gives. A clause that went missing would let a kernel run on what it
// was not written for.
#include "kernels/reject_testing.h"

namespace evoq {
namespace {

TEST(Reject, Normalizations) {
  Expect("softmax_f32", {"Softmax", {}, {F({2, 3})}, {F({2, 3})}, {}},
         {{"types: uint8[2, 3](scale 0.5, zero 3) -> float32[2, 3], expected float32",
           Input(0, Q({2, 3}))},
          {"types: float32[2, 3] -> uint8[2, 3](scale 0.5, zero 3), expected float32",
           Output(0, Q({2, 3}))},
          {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }},
          {"shape: input 0 is float32[N, 3], expected a static shape",
           [](Call& c) { c.inputs[0].shape = c.outputs[0].shape = Unknown(); }},
          {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"attribute: axis -3 is outside [-2, 2)", With("axis", -3)}});
  Expect("softmax_u8", {"Softmax", {}, {Q({2, 3})}, {Q({2, 3})}, {}},
         {{"types: int8[2, 3](scale 0.5, zero 3) -> uint8[2, 3](scale 0.5, zero 3), expected uint8 "
           "with one scale each",
           Input(0, Q({2, 3}, DType::kInt8))},
          {"types: uint8[2, 3](scale 0.5, zero 3) -> float32[2, 3], expected uint8 with one scale "
           "each",
           Output(0, F({2, 3}))},
          {"types: uint8[2, 3](3 scales on axis 1) -> uint8[2, 3](scale 0.5, zero 3), expected "
           "uint8 with one scale each",
           Input(0, PerAxis({2, 3}, 1))},
          {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }}});
  Expect(
      "layer_norm_f32", {"LayerNormalization", {}, {F({2, 3}), F({3}), F({3})}, {F({2, 3})}, {}},
      {{"types: input 1 is uint8[3](scale 0.5, zero 3), expected float32", Input(1, Q({3}))},
       {"types: output is uint8[2, 3](scale 0.5, zero 3), expected float32", Output(0, Q({2, 3}))},
       {"shape: input 1 is float32[1], expected 3 elements", Input(1, F({1}))},
       {"shape: input 2 is float32[2], expected 3 elements", Input(2, F({2}))},
       {"shape: [2, 3] -> [3, 2]", Output(0, F({3, 2}))},
       {"attribute: axis 5 is outside [-2, 2)", With("axis", 5)}});
}

TEST(Reject, Reductions) {
  const Call reduce = Call{"ReduceMax", {}, {F({2, 3})}, {F({2, 1})}, {}}.Constant(1, Ints({1}));
  Expect("ReduceMax_f32", reduce,
         {{"types: int64[2, 3] -> float32[2, 1], expected float32",
           Input(0, TensorType(DType::kInt64, Shape{2, 3}))},
          {"types: float32[2, 3] -> uint8[2, 1](scale 0.5, zero 3), expected float32",
           Output(0, Q({2, 1}))},
          {"not-constant: the axes are computed at run time", [](Call& c) { c.data.clear(); }},
          {"attribute: axis 2 is outside [-2, 2)", [](Call& c) { c.Constant(1, Ints({2})); }},
          {"shape: [2, 3] -> [1, 3]", Output(0, F({1, 3}))},
          {"shape: input 0 is empty", Input(0, F({2, 0}))},
          {"shape: input 0 is float32[N, 3], expected a static shape",
           [](Call& c) { c.inputs[0].shape = Unknown(); }}});
  Expect("reduce_mean_u8",
         Call{"ReduceMean", {}, {Q({2, 3})}, {Q({2, 1})}, {}}.Constant(1, Ints({1})),
         {{"types: float32[2, 3] -> uint8[2, 1](scale 0.5, zero 3), expected uint8 with one scale "
           "each",
           Input(0, F({2, 3}))},
          {"types: uint8[2, 3](scale 0.5, zero 3) -> float32[2, 1], expected uint8 with one scale "
           "each",
           Output(0, F({2, 1}))},
          {"types: int8[2, 3](scale 0.5, zero 3) -> uint8[2, 1](scale 0.5, zero 3), expected uint8 "
           "with one scale each",
           Input(0, Q({2, 3}, DType::kInt8))},
          {"not-constant: the axes are computed at run time", [](Call& c) { c.data.clear(); }},
          // A sum of more than 2^22 bytes might leave int32.
          {"", Input(0, Q({2, 1 << 22}))},
          {"shape: a sum of 4194305 bytes could overflow int32", Input(0, Q({2, (1 << 22) + 1}))}});
  Expect(
      "argmax_f32", {"ArgMax", {}, {F({2, 3})}, {TensorType(DType::kInt64, Shape{1, 3})}, {}},
      {{"types: uint8[2, 3](scale 0.5, zero 3) -> int64[1, 3], expected float32 to int64",
        Input(0, Q({2, 3}))},
       {"types: float32[2, 3] -> int32[1, 3], expected float32 to int64",
        [](Call& c) { c.outputs[0].dtype = DType::kInt32; }},
       {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
       {"shape: float32[2, 3] -> int64[2, 1]", [](Call& c) { c.outputs[0].shape = Shape{2, 1}; }},
       {"shape: float32[0, 3] -> int64[1, 3]", Input(0, F({0, 3}))}});
}

TEST(Reject, ElementwiseOperators) {
  Expect(
      "add_f32", {"Add", {}, {F({2, 3}), F({3})}, {F({2, 3})}, {}},
      {{"",
        [](Call& c) {  // eight dimensions that merge
          c.inputs[0] = c.inputs[1] = c.outputs[0] = F({2, 2, 2, 2, 2, 2, 2, 2});
        }},
       {"shape: [2, 1, 2, 1, 2, 1, 2, 1] and [1, 2, 1, 2, 1, 2, 1, 2] to [2, 2, 2, 2, 2, 2, 2, 2]: "
        "no broadcast of at most 7 dimensions",
        [](Call& c) {
          c.inputs[0] = F({2, 1, 2, 1, 2, 1, 2, 1}), c.inputs[1] = F({1, 2, 1, 2, 1, 2, 1, 2}),
          c.outputs[0] = F({2, 2, 2, 2, 2, 2, 2, 2});
        }},
       {"shape: input 1 is float32[N, 3], expected a static shape", Input(1, F(Unknown()))},
       {"types: an input is uint8[3](scale 0.5, zero 3), expected float32", Input(1, Q({3}))},
       {"types: output is uint8[2, 3](scale 0.5, zero 3), expected float32", Output(0, Q({2, 3}))},
       {"types: 3 inputs, expected 2", [](Call& c) { c.inputs.push_back(F({3})); }},
       {"shape: [2, 3] and [2] to [2, 3]: no broadcast of at most 7 dimensions", Input(1, F({2}))},
       {"shape: [2, 3] and [3] to [3, 2]: no broadcast of at most 7 dimensions",
        Output(0, F({3, 2}))},
       {"attribute: attribute activation is 'Reluu', expected Relu, Clip, LeakyRelu, ...",
        With("activation", "Reluu")},
       {"", With("activation", "Silu")}});
  const TensorType ints(DType::kInt64, Shape{2, 3});
  Expect("add_integer", {"Add", {}, {ints, ints}, {ints}, {}},
         {{"types: an input is float32[2, 3], the output int64[2, 3], expected int64 or int32 "
           "throughout",
           Input(0, F({2, 3}))},
          {"types: an input is int64[2, 3], the output int32[2, 3], expected int64 or int32 "
           "throughout",
           [](Call& c) { c.outputs[0].dtype = DType::kInt32; }},
          {"shape: [2, 3] and [2] to [2, 3]: no broadcast of at most 7 dimensions",
           Input(1, TensorType(DType::kInt64, Shape{2}))},
          {"types: 1 inputs, expected 2", [](Call& c) { c.inputs.pop_back(); }}});
  Expect("add_u8", {"Add", {}, {Q({2, 3}), Q({3})}, {Q({2, 3})}, {}},
         {{"types: an input is float32[3], expected uint8 with one scale", Input(1, F({3}))},
          {"types: an input is int8[2, 3](scale 0.5, zero 3), expected uint8 with one scale",
           Input(0, Q({2, 3}, DType::kInt8))},
          {"types: output is float32[2, 3], expected uint8 with one scale", Output(0, F({2, 3}))},
          {"types: an input is uint8[2, 3](2 scales on axis 0), expected uint8 with one scale",
           Input(0, PerAxis({2, 3}, 0))},
          {"attribute: activation Silu is not piecewise linear", With("activation", "Silu")},
          {"", With("activation", "Relu")}});
  Expect(
      "mul_u8", {"Mul", {}, {Q({2, 3}), Q({3})}, {Q({2, 3})}, {}},
      {{"attribute: Mul with a fused activation, which only Add has", With("activation", "Relu")}});
  Expect("Clip_f32", {"Clip", {}, {F({2, 3}), F({}), F({})}, {F({2, 3})}, {}},
         {{"types: uint8[2, 3](scale 0.5, zero 3) -> float32[2, 3], expected float32",
           Input(0, Q({2, 3}))},
          {"types: input 1 is float32[2]", Input(1, F({2}))},
          {"types: input 2 is int32[]", [](Call& c) { c.inputs[2].dtype = DType::kInt32; }},
          {"shape: [2, 3] -> [3, 2]", Output(0, F({3, 2}))}});
  Expect("Relu_u8", {"Relu", {}, {Q({2, 3})}, {Q({2, 3}, DType::kInt8)}, {}},
         {{"types: float32[2, 3] -> int8[2, 3](scale 0.5, zero 3), expected uint8 or int8 with one "
           "scale each",
           Input(0, F({2, 3}))},
          {"types: uint8[2, 3](scale 0.5, zero 3) -> float32[2, 3], expected uint8 or int8 with "
           "one scale each",
           Output(0, F({2, 3}))},
          {"types: uint8[2, 3](3 scales on axis 1) -> int8[2, 3](scale 0.5, zero 3), expected "
           "uint8 or int8 with one scale each",
           Input(0, PerAxis({2, 3}, 1))},
          {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }},
          {"types: input 1 is float32[]", [](Call& c) { c.Constant(1, Zeros(F({}))); }}});
  Expect("Clip_u8", Call{"Clip", {}, {Q({2, 3})}, {Q({2, 3})}, {}}.Constant(1, Zeros(F({}))),
         {{"not-constant: input 1 is computed at run time", [](Call& c) { c.data.clear(); }},
          {"types: input 1 is float32[2]", [](Call& c) { c.Constant(1, Zeros(F({2}))); }}});
  Expect(
      "Equal", {"Equal", {}, {F({2, 3}), F({3})}, {TensorType(DType::kBool, Shape{2, 3})}, {}},
      {{"types: float32[2, 3] and int32[3] to bool[2, 3], expected plain bool, uint8, int8, int32, "
        "int64 or float32, to bool",
        [](Call& c) { c.inputs[1].dtype = DType::kInt32; }},
       {"types: float32[2, 3] and float32[3] to uint8[2, 3], expected plain bool, uint8, int8, "
        "int32, int64 or float32, to bool",
        [](Call& c) { c.outputs[0].dtype = kU; }},
       {"types: uint8[3](scale 0.5, zero 3) and uint8[3](scale 0.5, zero 3) to bool[2, 3], "
        "expected plain bool, uint8, int8, int32, int64 or float32, to bool",
        [](Call& c) { c.inputs[0] = c.inputs[1] = Q({3}); }},
       {"types: float64[2, 3] and float64[3] to bool[2, 3], expected plain bool, uint8, int8, "
        "int32, int64 or float32, to bool",
        [](Call& c) { c.inputs[0].dtype = c.inputs[1].dtype = DType::kFloat64; }},
       {"shape: float32[2, 3] and float32[2] to bool[2, 3]: no broadcast of at most 7 dimensions",
        [](Call& c) { c.inputs[1].shape = Shape{2}; }}});
  Expect(
      "Where",
      {"Where", {}, {TensorType(DType::kBool, Shape{3}), F({2, 3}), F({})}, {F({2, 3})}, {}},
      {{"", [](Call& c) { c.inputs[1] = c.inputs[2] = c.outputs[0] = Q({2, 3}); }},
       {"types: input 1 is uint8[2, 3](2 scales on axis 0), output uint8[2, 3](2 scales on axis "
        "0), expected the same type of whole bytes",
        [](Call& c) { c.inputs[1] = c.inputs[2] = c.outputs[0] = PerAxis({2, 3}, 0); }},
       {"types: input 1 is int4[2, 3], output int4[2, 3], expected the same type of whole bytes",
        [](Call& c) {
          for (TensorType* t : {&c.inputs[1], &c.inputs[2], &c.outputs[0]}) t->dtype = DType::kInt4;
        }},
       {"types: the condition is uint8[3], expected bool", [](Call& c) { c.inputs[0].dtype = kU; }},
       {"types: input 1 is uint8[2, 3](scale 0.5, zero 3), output float32[2, 3], expected the same "
        "type of whole bytes",
        Input(1, Q({2, 3}))},
       {"types: input 2 is int32[], output float32[2, 3], expected the same type of whole bytes",
        [](Call& c) { c.inputs[2].dtype = DType::kInt32; }},
       {"types: input 2 is uint8[](scale 0.25, zero 3), output uint8[2, 3](scale 0.5, zero 3), "
        "expected the same type of whole bytes",
        [](Call& c) {
          c.inputs[1] = c.outputs[0] = Q({2, 3}),
          c.inputs[2] = TensorType(kU, Shape{}, QuantParams::PerTensor(0.25f, 3));
        }},
       {"shape: no broadcast of at most 7 dimensions to float32[2, 3]",
        [](Call& c) { c.inputs[0].shape = Shape{2}; }}});
}

TEST(Reject, MovingOperators) {
  Expect("concat", {"Concat", WithAxis(1), {F({2, 3}), F({2, 1})}, {F({2, 4})}, {}},
         {{"types: input 1 is uint8[2, 1](scale 0.5, zero 3), output float32[2, 4]: moving "
           "elements needs the same type of whole bytes",
           Input(1, Q({2, 1}))},
          {"types: input 0 is float32[2, 3], output uint8[2, 4](scale 0.5, zero 3): moving "
           "elements needs the same type of whole bytes",
           Output(0, Q({2, 4}))},
          {"",
           [](Call& c) {
             c.inputs[0] = Q({2, 3}, kI8), c.inputs[1] = c.outputs[0] = Q({2, 1}),
             c.outputs[0].shape = Shape{2, 4};
           }},
          {"types: input 1 is int32[2, 1], output float32[2, 4]: moving elements needs the same "
           "type of whole bytes",
           [](Call& c) { c.inputs[1].dtype = DType::kInt32; }},
          {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"shape: input 1 is float32[1, 1], output float32[2, 4]", Input(1, F({1, 1}))},
          {"shape: input 1 is float32[2], output float32[2, 4]", Input(1, F({2}))},
          {"shape: inputs of 4 along the axis, output [2, 5]", Output(0, F({2, 5}))}});
  Expect("gather", Call{"Gather", {}, {F({4, 3})}, {F({2, 3})}, {}}.Constant(1, Ints({0, -4})),
         {{"types: indices are float32[2], expected int64 or int32",
           [](Call& c) { c.Constant(1, Zeros(F({2}))); }},
          {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"shape: float32[4, 3] at int64[2] -> float32[3, 3]", Output(0, F({3, 3}))},
          {"shape: index 4 into an axis of 4", [](Call& c) { c.Constant(1, Ints({0, 4})); }},
          {"shape: index -5 into an axis of 4", [](Call& c) { c.Constant(1, Ints({0, -5})); }},
          {"types: input 0 is float32[4, 3], output int32[2, 3]: moving elements needs the same "
           "type of whole bytes",
           [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  const auto indices = [](std::vector<int64_t> sizes) {
    return TensorType(DType::kInt64, Shape(sizes));
  };
  Expect(
      "gather_nd", {"GatherND", {}, {F({4, 3}), indices({2, 1})}, {F({2, 3})}, {}},
      {{"types: indices are float32[2, 1], expected int64 or int32", Input(1, F({2, 1}))},
       {"shape: tuples of 2 indices, expected 1", Input(1, indices({2, 2}))},
       {"attribute: batch_dims 2 of float32[4, 3] and indices int64[2, 1]", With("batch_dims", 2)},
       {"attribute: batch_dims -1 of float32[4, 3] and indices int64[2, 1]",
        With("batch_dims", -1)},
       {"shape: float32[4, 3] at int64[2, 1]", With("batch_dims", 1)},
       {"shape: float32[4, 3] at int64[2, 1] -> float32[3, 3]", Output(0, F({3, 3}))},
       {"shape: float32[0, 3] at int64[2, 1] -> float32[2, 3]", Input(0, F({0, 3}))},
       {"types: input 0 is float32[4, 3], output int32[2, 3]: moving elements needs the same "
        "type of whole bytes",
        [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  Expect("gather_elements", {"GatherElements", {}, {F({4, 3}), indices({2, 3})}, {F({2, 3})}, {}},
         {{"types: indices are float32[2, 3], expected int64 or int32", Input(1, F({2, 3}))},
          {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"shape: float32[4, 3] at int64[2] -> float32[2, 3]", Input(1, indices({2}))},
          {"shape: float32[4, 3] at int64[2, 4] -> float32[2, 4]",
           [](Call& c) { c.inputs[1].shape = c.outputs[0].shape = Shape{2, 4}; }},
          {"shape: float32[0, 3] at int64[2, 3] -> float32[2, 3]", Input(0, F({0, 3}))},
          {"shape: float32[4, 3] at int64[2, 3] -> float32[3, 3]", Output(0, F({3, 3}))},
          {"types: input 0 is float32[4, 3], output int32[2, 3]: moving elements needs the same "
           "type of whole bytes",
           [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  const Call blocks = {
      "ScatterND", {}, {F({4, 3}), TensorType(kI64, Shape{2, 1}), F({2, 3})}, {F({4, 3})}, {}};
  Expect("scatter_nd", blocks,
         {{"types: indices are float32[2, 1], expected int64 or int32", Input(1, F({2, 1}))},
          {"", With("reduction", "add")},
          {"attribute: reduction mean of float32[4, 3]", With("reduction", "mean")},
          {"shape: float32[4, 3] at int64[2, 1] from float32[2, 2]", Input(2, F({2, 2}))},
          {"shape: an index is outside float32[4, 3]",
           [](Call& c) { c.data.emplace(1, Tensor::FromValues<int64_t>(Shape{2, 1}, {0, 4})); }},
          {"not-constant: tuples of 2 indices are computed at run time",
           [](Call& c) { c.inputs[1].shape = Shape{2, 2}, c.inputs[2].shape = Shape{2}; }}});
  Expect("scatter_elements",
         {"ScatterElements", {}, {F({4, 3}), indices({2, 3}), F({2, 3})}, {F({4, 3})}, {}},
         {{"types: indices are float32[2, 3], expected int64 or int32", Input(1, F({2, 3}))},
          {"types: input 2 is int32[2, 3], output float32[4, 3]: moving elements needs the same "
           "type of whole bytes",
           [](Call& c) { c.inputs[2].dtype = DType::kInt32; }},
          {"shape: float32[4, 3] at int64[2, 3] -> float32[4, 3]", Input(2, F({2, 2}))},
          {"shape: float32[4, 3] at int64[2, 3] -> float32[3, 3]", Output(0, F({3, 3}))},
          {"", With("reduction", "mul")},
          {"attribute: reduction mean of float32[4, 3]", With("reduction", "mean")},
          {"attribute: reduction add of int32[4, 3]", [](Call& c) {
             c.attrs.Set("reduction", "add");
             c.inputs[0].dtype = c.inputs[2].dtype = c.outputs[0].dtype = DType::kInt32;
           }}});
  Expect("cum_sum", Call{"CumSum", {}, {F({4, 3})}, {F({4, 3})}, {}}.Constant(1, Ints({1})),
         {{"not-constant: the axis is no constant of one element",
           [](Call& c) { c.Constant(1, Ints({0, 1})); }},
          {"not-constant: the axis is no constant of one element",
           [](Call& c) { c.Constant(1, Ints({2})); }},
          {"not-constant: the axis is no constant of one element", [](Call& c) { c.data.clear(); }},
          {"types: float64[4, 3] -> float64[4, 3], expected float32, int32 or int64",
           [](Call& c) { c.inputs[0].dtype = c.outputs[0].dtype = DType::kFloat64; }},
          {"types: float32[4, 3] -> float32[3, 3], expected float32, int32 or int64",
           Output(0, F({3, 3}))}});
  Expect(
      "pad", Call{"Pad", {}, {F({2, 3})}, {F({3, 3})}, {}}.Constant(1, Ints({1, 0, 0, 0})),
      {{"not-constant: the pads are computed at run time", [](Call& c) { c.data.clear(); }},
       {"not-constant: 2 pads for 2 axes", [](Call& c) { c.Constant(1, Ints({1, 0})); }},
       {"attribute: mode mirror", With("mode", "mirror")},
       {"", With("mode", "edge")},
       {"shape: [2, 3] -> [2, 3] with pads 1 and 0 on axis 0", Output(0, F({2, 3}))},
       {"shape: [0, 3] -> [1, 3] with pads 1 and 0 on axis 0",
        [](Call& c) { c.inputs[0] = F({0, 3}), c.outputs[0] = F({1, 3}), c.Attr("mode", "edge"); }},
       {"shape: the value is float32[2]", [](Call& c) { c.Constant(2, Zeros(F({2}))); }},
       {"types: the value is int64[1], the input float32[2, 3]",
        [](Call& c) { c.Constant(2, Ints({1})); }},
       {"not-constant: the value is computed at run time",
        [](Call& c) {
          c.inputs[0] = Q({2, 3}), c.outputs[0] = Q({3, 3}), c.inputs.push_back(F({1}));
        }},
       {"", [](Call& c) { c.inputs[0] = Q({2, 3}), c.outputs[0] = Q({3, 3}); }},
       {"types: the input is int32[2, 3](scale 0.5, zero 3)", [](Call& c) {
          c.inputs[0] = Q({2, 3}, DType::kInt32), c.outputs[0] = Q({3, 3}, DType::kInt32);
        }}});
  Expect("transpose", {"Transpose", {}, {F({2, 3})}, {F({3, 2})}, {}},
         {{"shape: [2, 3] -> [4, 2]", Output(0, F({4, 2}))},
          {"shape: [2, 3] -> [3, 4]", Output(0, F({3, 4}))},
          {"attribute: perm does not permute 2 axes", With("perm", std::vector<int64_t>{0, 0})},
          {"attribute: perm does not permute 2 axes", With("perm", std::vector<int64_t>{0})},
          {"attribute: perm does not permute 2 axes", With("perm", std::vector<int64_t>{0, 2})},
          {"shape: [2, 3] -> [2, 3]", Output(0, F({2, 3}))},
          {"types: input 0 is float32[2, 3], output int32[3, 2]: moving elements needs the same "
           "type of whole bytes",
           [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  Expect(
      "resize_nearest",
      Call{"Resize", {}, {Q({1, 1, 2})}, {Q({1, 1, 4})}, {}}.Constant(3, Ints({1, 1, 4})),
      {{"types: uint8[1, 1, 2](scale 0.5, zero 3) -> float32[1, 1, 4]: nearest keeps the elements",
        Output(0, F({1, 1, 4}))},
       {"types: uint8[1, 1, 2](2 scales on axis 2) -> uint8[1, 1, 4](scale 0.5, zero 3): nearest "
        "keeps the elements",
        Input(0, PerAxis({1, 1, 2}, 2))},
       {"attribute: mode linear", With("mode", "linear")}});
}

TEST(Reject, Views) {
  Expect("dequantize_transpose", {"DequantizeTranspose", {}, {Q({2, 3}, kI8)}, {F({3, 2})}, {}},
         {{"types: float32[2, 3] -> float32[3, 2], expected bytes with one scale and float32",
           Input(0, F({2, 3}))},
          {"types: int8[2, 3](scale 0.5, zero 3) -> uint8[3, 2](scale 0.5, zero 3), expected bytes "
           "with one scale and float32",
           Output(0, Q({3, 2}))},
          {"attribute: perm does not permute 2 axes", With("perm", Sizes{1, 1})},
          {"shape: [2, 3] -> [2, 3]", Output(0, F({2, 3}))}});
  Expect("copy_reshape", {"Reshape", {}, {Q({2, 3})}, {Q({6})}, {}},
         {{"types: uint8[2, 3](scale 0.5, zero 3) -> int8[6](scale 0.5, zero 3): a copy keeps the "
           "type",
           Output(0, Q({6}, kI8))},
          {"types: uint8[2, 3](3 scales on axis 1) -> uint8[3, 2](3 scales on axis 1): a copy "
           "keeps the type",
           [](Call& c) {
             c.inputs[0] = c.outputs[0] = PerAxis({2, 3}, 1), c.outputs[0].shape = Shape{3, 2};
           }},
          {"", [](Call& c) { c.inputs[0] = c.outputs[0] = PerAxis({2, 3}, 1); }},
          {"shape: [2, 3] -> [7]", Output(0, Q({7}))}});
  Expect(
      "slice",
      Call{"Slice", {}, {F({4, 3})}, {F({2, 3})}, {}}.Constant(1, Ints({1})).Constant(2, Ints({3})),
      {{"not-constant: starts, ends, axes and steps of different lengths",
        [](Call& c) { c.Constant(3, Ints({0, 1})); }},
       {"not-constant: starts, ends, axes and steps of different lengths",
        [](Call& c) { c.Constant(3, Ints({0})).Constant(4, Ints({1, 1})); }},
       {"not-constant: input 4 is computed at run time",
        [](Call& c) { c.inputs.resize(5), c.inputs[4] = TensorType(kI64, Shape{1}); }},
       {"types: input 0 is int4[4, 3], output int4[2, 3]: moving elements needs the same type of "
        "whole bytes",
        [](Call& c) { c.inputs[0].dtype = c.outputs[0].dtype = DType::kInt4; }},
       {"types: input 0 has scales along an axis", [](Call& c) {
          c.inputs[0] = c.outputs[0] = PerAxis({4, 3}, 1), c.outputs[0].shape = Shape{2, 3};
        }}});
  Expect("tile", {"Tile", {}, {F({2, 1})}, {F({4, 3})}, {}},
         {{"", Output(0, F({2, 1}))},
          {"shape: [2, 1] -> [3, 3]", Output(0, F({3, 3}))},
          {"shape: [2, 1] -> [4]", Output(0, F({4}))},
          {"shape: [2, 1] -> [4, 3, 1]", Output(0, F({4, 3, 1}))},
          {"types: input 0 is float32[2, 1], output uint8[4, 3](scale 0.5, zero 3): moving "
           "elements needs the same type of whole bytes",
           Output(0, Q({4, 3}))},
          {"", Output(0, F({0, 3}))},
          {"shape: [0, 1] -> [4, 3]", [](Call& c) { c.inputs[0] = F({0, 1}); }},
          {"", [](Call& c) { c.inputs[0] = F({0, 1}), c.outputs[0] = F({0, 3}); }}});
  Expect("expand", {"Expand", {}, {F({3, 1})}, {F({2, 3, 4})}, {}},
         {{"", Output(0, F({3, 1}))},
          {"", Output(0, F({3, 0}))},
          {"shape: [3, 1] -> [3]", Output(0, F({3}))},
          {"shape: [3, 1] -> [2, 4, 4]", Output(0, F({2, 4, 4}))},
          {"types: input 0 is float32[3, 1], output uint8[2, 3, 4](scale 0.5, zero 3): moving "
           "elements needs the same type of whole bytes",
           Output(0, Q({2, 3, 4}))}});
  Expect(
      "slice",
      Call{"Slice", {}, {F({4, 3})}, {F({2, 3})}, {}}.Constant(1, Ints({1})).Constant(2, Ints({3})),
      {{"shape: [4, 3] -> [3, 3]", Output(0, F({3, 3}))},
       {"shape: [4, 3] -> [2, 2]", Output(0, F({2, 2}))},
       {"types: input 0 is float32[4, 3], output uint8[2, 3](scale 0.5, zero 3): moving elements "
        "needs the same type of whole bytes",
        Output(0, Q({2, 3}))},
       {"not-constant: input 1 is computed at run time", [](Call& c) { c.data.clear(); }},
       {"not-constant: starts, ends, axes and steps of different lengths",
        [](Call& c) { c.Constant(1, Ints({1, 0})); }},
       {"not-constant: axis 2 is outside [-2, 2)", [](Call& c) { c.Constant(3, Ints({2})); }},
       {"not-constant: step 0", [](Call& c) { c.Constant(3, Ints({0})).Constant(4, Ints({0})); }},
       {"shape: [4, 3] -> [2, 3]",
        [](Call& c) { c.Constant(3, Ints({0})).Constant(4, Ints({2})); }}});
  Expect("split", {"Split", {}, {F({4, 3})}, {F({1, 3}), F({3, 3})}, {}},
         {{"", [](Call& c) { c.Constant(1, Ints({1, 3})); }},
          {"not-constant: the sizes are computed at run time",
           [](Call& c) { c.inputs.push_back(TensorType(kI64, Shape{2})); }},
          {"types: an output is int4[1, 3], the input int4[4, 3]",
           [](Call& c) {
             for (TensorType* t : {&c.inputs[0], &c.outputs[0], &c.outputs[1]})
               t->dtype = DType::kInt4;
           }},
          {"shape: output 1 is float32[N, 3], expected a static shape", Output(1, F(Unknown()))},
          {"shape: outputs of 3 along the axis of float32[4, 3]", Output(1, F({2, 3}))},
          {"shape: an output is float32[3]", Output(1, F({3}))},
          {"types: an output is uint8[3, 3](scale 0.5, zero 3), the input float32[4, 3]",
           Output(1, Q({3, 3}))},
          {"attribute: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"shape: outputs of 6 along the axis of float32[4, 3]", With("axis", 1)}});
  Attrs two;
  two.Set("blocksize", AttrValue(int64_t{2}));
  Expect(
      "depth_to_space", {"DepthToSpace", two, {F({1, 8, 3, 3})}, {F({1, 2, 6, 6})}, {}},
      {{"",
        [](Call& c) {
          c.Attr("channels_last", 1), c.inputs[0] = F({1, 3, 3, 8}), c.outputs[0] = F({1, 6, 6, 2});
        }},
       {"shape: blocksize 2: [1, 3, 3, 6] -> [1, 6, 6, 1]",
        [](Call& c) {
          c.Attr("channels_last", 1), c.inputs[0] = F({1, 3, 3, 6}), c.outputs[0] = F({1, 6, 6, 1});
        }},
       {"attribute: blocksize 32769 on [1, 8, 3, 3]", With("blocksize", 32769)},
       {"shape: blocksize 32768: [1, 8, 3, 3] -> [1, 2, 6, 6]", With("blocksize", 32768)},
       {"attribute: blocksize 0 on [1, 8, 3, 3]", With("blocksize", 0)},
       {"shape: blocksize 3: [1, 8, 3, 3] -> [1, 2, 6, 6]", With("blocksize", 3)},
       {"attribute: blocksize 2 on [8, 3, 3]", Input(0, F({8, 3, 3}))},
       {"shape: blocksize 2: [1, 6, 3, 3] -> [1, 2, 6, 6]", Input(0, F({1, 6, 3, 3}))},
       {"shape: blocksize 2: [1, 8, 3, 3] -> [1, 2, 6, 5]", Output(0, F({1, 2, 6, 5}))}});
  Expect(
      "space_to_depth", {"SpaceToDepth", two, {F({1, 2, 6, 4})}, {F({1, 8, 3, 2})}, {}},
      {{"",
        [](Call& c) {
          c.Attr("channels_last", 1), c.inputs[0] = F({1, 6, 4, 3}),
                                      c.outputs[0] = F({1, 3, 2, 12});
        }},
       {"shape: blocksize 2: [1, 5, 4, 2] -> [1, 2, 2, 8]",
        [](Call& c) {
          c.Attr("channels_last", 1), c.inputs[0] = F({1, 5, 4, 2}), c.outputs[0] = F({1, 2, 2, 8});
        }},
       {"shape: blocksize 2: [1, 6, 3, 2] -> [1, 3, 1, 8]",
        [](Call& c) {
          c.Attr("channels_last", 1), c.inputs[0] = F({1, 6, 3, 2}), c.outputs[0] = F({1, 3, 1, 8});
        }},
       {"", With("blocksize", 1)},
       {"shape: blocksize 2: [1, 2, 5, 4] -> [1, 8, 3, 2]", Input(0, F({1, 2, 5, 4}))},
       {"shape: blocksize 2: [1, 2, 6, 3] -> [1, 8, 3, 2]", Input(0, F({1, 2, 6, 3}))},
       {"shape: blocksize 4: [1, 2, 6, 4] -> [1, 8, 3, 2]", With("blocksize", 4)}});
}

}  // namespace
}  // namespace evoq
