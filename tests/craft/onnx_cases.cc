// What tests/must_fail does not meet of the importer's conditions, and good files beside them: at
// each limit, one on either side.
#include "tests/craft/onnx_cases.h"

#include "tests/craft/onnx.h"

namespace evoq::craft {
namespace {

constexpr int64_t kLeast = INT64_MIN, kMost = INT64_MAX;

// The usual model: `nodes` compute y from x of these sizes.
std::string FromX(int opset, const Sizes& x, const std::string& nodes) {
  return WriteOnnx(opset, Input("x", kFloat32, x) + nodes + Output("y"));
}
std::string FromAnyX(int opset, const std::string& nodes) {
  return WriteOnnx(opset, InputOfAnyRank("x", kFloat32) + nodes + Output("y"));
}

std::vector<OnnxCase> StructureCases() {
  const std::string relu = Node("Relu", {"x"}, {"y"}), y = Output("y");
  const std::string x = Input("x", kFloat32, {2});
  const auto constant = [&](const std::string& tensor) {
    return WriteOnnx(
        17, x + "initializer { name: 'w' " + tensor + " } " + Node("Add", {"x", "w"}, {"y"}) + y);
  };
  const auto function = [&](const Names& inputs, const Names& outputs) {
    return WriteOnnx(17, x + Node("Twice", inputs, outputs, "", "com.microsoft") + y,
                     "functions { name: 'Twice' domain: 'com.microsoft' input: 'a' output: 'b' "
                     "opset_import { version: 17 } " +
                         Node("Add", {"a", "a"}, {"b"}) + "}");
  };
  return {
      {"good", FromX(17, {2}, relu), ""},
      {"good, a function", function({"x"}, {"y"}), ""},
      {"a function of too many inputs", function({"x", "x"}, {"y"}),
       "node '' calls 'Twice' with 2 inputs and 1 outputs, expected at most 1 and 1"},
      {"a function of too many outputs", function({"x"}, {"y", "z"}),
       "node '' calls 'Twice' with 1 inputs and 2 outputs, expected at most 1 and 1"},
      {"an initializer without a name", WriteOnnx(17, x + Constant("", kFloat32, {1}) + relu + y),
       "a value without a name"},
      {"a map", WriteOnnx(17, "input { name: 'x' type { map_type { key_type: 7 } } } " + relu + y),
       "input 'x': a value that is no tensor, sequence or optional (map, sparse or nested)"},
      {"a Constant of two outputs",
       FromX(17, {2}, Node("Constant", {}, {"a", "b"}, Float("value_float", 1)) + relu),
       "node '' (Constant): 2 outputs, expected 1"},
      {"a Constant of another attribute",
       FromX(17, {2}, Node("Constant", {}, {"a"}, Float("value_int8", 1)) + relu),
       "constant 'a': attribute value_int8, expected a tensor, numbers or a number"},
      {"an attribute of graphs",
       FromX(17, {2}, Node("Relu", {"x"}, {"y"}, "attribute { name: 'z' type: GRAPHS } ")),
       "attribute z: an attribute of kind GRAPHS"},
      {"data of a model from memory",
       constant("data_type: 1 dims: 2 data_location: EXTERNAL external_data { key: 'location' "
                "value: 'w.bin' }"),
       "initializer 'w': external data 'w.bin' of a model read from memory, which has no folder"},
      {"complex numbers", constant("data_type: 14 dims: 2"),
       "initializer 'w': element type complex64, which evoq does not have"},
      {"segments", constant("data_type: 1 dims: 2 segment { begin: 0 end: 2 } float_data: 1"),
       "initializer 'w': a tensor in segments"},
      {"raw strings", constant("data_type: 8 dims: 2 raw_data: 'ab'"),
       "initializer 'w': strings outside their data field"},
      {"external strings", constant("data_type: 8 dims: 2 data_location: EXTERNAL"),
       "initializer 'w': strings outside their data field"},
      {"good, two halves to a byte", constant("data_type: 1 dims: 1 raw_data: '\\000\\000\\000?'"),
       ""},
      {"a Scan of opset 8 with lengths",
       WriteOnnx(8, Input("x", kFloat32, {2, 3, 4}) + Input("l", kInt64, {2}) +
                        Node("Scan", {"l", "x"}, {"y"},
                             Int("num_scan_inputs", 1) +
                                 Subgraph("body", Input("a", kFloat32, {4}) +
                                                      Node("Relu", {"a"}, {"b"}) + Output("b"))) +
                        y),
       "(Scan): input 0 (sequence_lens)"},
  };
}

std::vector<OnnxCase> UpgradeCases() {
  const std::string c4 = Constant("c", kFloat32, {4}), c6 = Constant("c", kFloat32, {6});
  const auto add = [&](int64_t axis) {
    return FromX(6, {2, 6, 4},
                 c6 + Node("Add", {"x", "c"}, {"y"}, Int("broadcast", 1) + Int("axis", axis)));
  };
  const std::string no_fit = " of [2, 6, 4] does not fit";
  std::string statistics;
  for (const char* name : {"s", "b", "m", "v"}) statistics += Constant(name, kFloat32, {6});
  const auto norm = [&](const Names& outputs, const std::string& attributes) {
    return statistics + Node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs, attributes);
  };
  const std::string training = Int("training_mode", 1);
  const std::string yes = "initializer { name: 't' data_type: 9 int32_data: 1 } ";
  const auto groups = [&](int64_t count) {
    return FromX(18, {2, 6, 4},
                 Constant("s", kFloat32, {3}) +
                     Node("GroupNormalization", {"x", "s", "s"}, {"y"}, Int("num_groups", count)));
  };
  return {
      {"good, broadcast at axis 1", add(1), ""},
      {"good, broadcast at axis -2", add(-2), ""},
      {"broadcast at axis 3", add(3), "[6] at axis 3" + no_fit},
      {"broadcast at axis -4", add(-4), "[6] at axis -4" + no_fit},
      {"broadcast at the least axis", add(kLeast), "[6] at axis -9223372036854775808" + no_fit},
      {"broadcast at the largest axis", add(kMost), "[6] at axis 9223372036854775807" + no_fit},
      {"good, a number at the axis behind the last",
       FromX(6, {2, 4},
             Constant("n", kFloat32, {}) +
                 Node("Add", {"x", "n"}, {"y"}, Int("broadcast", 1) + Int("axis", 2))),
       ""},
      {"broadcast of any rank",
       FromAnyX(6, c4 + Node("Add", {"x", "c"}, {"y"}, Int("broadcast", 1) + Int("axis", 1))),
       "broadcast at an axis of values of unknown rank"},
      {"good, a slope per channel", FromX(6, {2, 6, 4}, c6 + Node("PRelu", {"x", "c"}, {"y"})), ""},
      {"a slope of any rank", FromAnyX(6, c6 + Node("PRelu", {"x", "c"}, {"y"})),
       "a slope per channel of values of unknown rank"},
      {"good, bounds of Clip", FromX(10, {2}, Node("Clip", {"x"}, {"y"}, Float("min", 0))), ""},
      {"bounds of Clip of bytes",
       WriteOnnx(
           10, Input("x", kUint8, {2}) + Node("Clip", {"x"}, {"y"}, Float("min", 0)) + Output("y")),
       "input of type uint8[2]"},
      {"good, Pad", FromX(10, {2}, Node("Pad", {"x"}, {"y"}, Ints("pads", {1, 1}))), ""},
      {"Pad without pads", FromX(10, {2}, Node("Pad", {"x"}, {"y"})), "attribute pads is missing"},
      {"good, Slice",
       FromX(9, {4}, Node("Slice", {"x"}, {"y"}, Ints("starts", {1}) + Ints("ends", {3}))), ""},
      {"Slice without ends", FromX(9, {4}, Node("Slice", {"x"}, {"y"}, Ints("starts", {1}))),
       "attributes starts and ends are missing"},
      {"TopK without k", FromX(9, {4}, Node("TopK", {"x"}, {"y", "i"})), "attribute k is missing"},
      {"good, Upsample",
       FromX(7, {1, 1, 2, 2}, Node("Upsample", {"x"}, {"y"}, Floats("scales", {1, 1, 2, 2}))), ""},
      {"Upsample without scales", FromX(7, {1, 1, 2, 2}, Node("Upsample", {"x"}, {"y"})),
       "attribute scales is missing"},
      {"Resize of opset 10 without scales", FromX(10, {4}, Node("Resize", {"x"}, {"y"})),
       "inputs must be x and scales in opset 10"},
      {"training of integers",
       WriteOnnx(13, Input("x", kInt32, {4}) + yes + Node("Dropout", {"x", "", "t"}, {"y"}) +
                         Output("y")),
       "training of int32[4]"},
      {"good, a mask alone",
       FromX(13, {4}, Node("Dropout", {"x"}, {"", "m"}) + Node("Not", {"m"}, {"y"})), ""},
      {"good, BatchNormalization", FromX(15, {2, 6, 4}, norm({"y"}, "")), ""},
      {"training of any rank", FromAnyX(15, norm({"y"}, training)), "training_mode=1 of float32"},
      {"training of four outputs",
       FromX(15, {2, 6, 4},
             norm({"y", "p", "q", "r"}, training) + Node("Add", {"p", "r"}, {"z"}) + Output("z")),
       "4 outputs, expected at most 3"},
      {"statistics per element", FromX(7, {2, 6, 4}, norm({"y"}, Int("spatial", 0))),
       "spatial=0: statistics per element"},
      {"statistics that are read", FromX(13, {2, 6, 4}, norm({"y", "p"}, "") + Output("p")),
       "output 1 (training statistics) is read"},
      {"Softmax of nothing", FromX(11, {4}, Node("Softmax", {""}, {"y"})), "input 0 is missing"},
      {"good, three groups", groups(3), ""},
      {"four groups of six channels", groups(4),
       "[2, 6, 4] in 4 groups, expected channels that the groups divide"},
      {"no groups", groups(0), "[2, 6, 4] in 0 groups, expected channels"},
      {"axes that are a number",
       FromX(11, {4, 1}, Node("ReduceMean", {"x"}, {"y"}, Int("axes", 1))),
       "attribute axes is of kind INT, expected INTS"},
  };
}

// com.microsoft's operators.
std::string Microsoft(const std::string& op, const Names& inputs, const Names& outputs,
                      const std::string& attributes = "") {
  return Node(op, inputs, outputs, attributes, "com.microsoft");
}

std::vector<OnnxCase> AttentionCases() {
  const Sizes sizes = {1, 6, 4};
  const auto attention = [&](const std::string& attributes, const std::string& mask = "") {
    return FromX(
        17, sizes,
        Constant("w", kFloat32, {4, 12}) + mask +
            Microsoft("Attention", {"x", "w", "", mask.empty() ? "" : "m"}, {"y"}, attributes));
  };
  const auto multi_head = [&](const Names& inputs, const std::string& more = "") {
    return FromX(17, sizes,
                 more + Microsoft("MultiHeadAttention", inputs, {"y"}, Int("num_heads", 2)));
  };
  const std::string lengths = Constant("l", kInt32, {1}, 5) + Constant("n", kInt32, {}, 6);
  const auto grouped = [&](int64_t heads, int64_t kv_heads, const Names& inputs,
                           const std::string& attributes = "") {
    return FromX(
        17, {1, 6, 8},
        lengths + Microsoft("GroupQueryAttention", inputs, {"y"},
                            Int("num_heads", heads) + Int("kv_num_heads", kv_heads) + attributes));
  };
  const Names packed = {"x", "", "", "", "", "l", "n"};
  const std::string two = Int("num_heads", 2);
  return {
      {"good, attention", attention(two), ""},
      {"attention that turns", attention(two + Int("do_rotary", 1)), "do_rotary=1"},
      {"attention of no heads", attention(""), "weights of [4, 12] for 0 heads"},
      {"attention whose sizes are too small", attention(two + Ints("qkv_hidden_sizes", {4, 4, 3})),
       "queries, keys and values do not fill [4, 12]"},
      {"attention of two sizes", attention(two + Ints("qkv_hidden_sizes", {4, 8})),
       "queries, keys and values do not fill [4, 12]"},
      {"attention of a negative size", attention(two + Ints("qkv_hidden_sizes", {-4, 12, 4})),
       "queries, keys and values do not fill [4, 12]"},
      {"attention whose sizes overflow",
       attention(two + Ints("qkv_hidden_sizes", {kMost, kMost, 14})),
       "queries, keys and values do not fill [4, 12]"},
      {"a mask of any rank", attention(two, InputOfAnyRank("m", kInt32)), "a mask of unknown rank"},
      {"a mask of five axes", attention(two, Input("m", kInt32, {1, 1, 1, 6, 6})),
       "a mask of int32[1, 1, 1, 6, 6]"},
      {"good, three inputs", multi_head({"x", "x", "x"}), ""},
      {"packed inputs", multi_head({"x"}), "expected queries, keys and values of rank 3 or packed"},
      {"keys of four axes", multi_head({"x", "k", "x"}, Input("k", kFloat32, {1, 2, 6, 2})),
       "float32[1, 2, 6, 2] and float32[1, 6, 4], expected queries, keys and values of rank 3"},
      {"good, a bias of free sizes",
       multi_head({"f", "x", "x", "b"},
                  Input("f", kFloat32, {1, 6, -1}) + Input("b", kFloat32, {12})),
       ""},
      {"a bias of packed inputs",
       multi_head({"p", "", "", "b"},
                  Input("p", kFloat32, {1, 6, 2, 3, 2}) + Input("b", kFloat32, {12})),
       "a bias for packed inputs"},
      {"good, grouped", grouped(2, 1, packed), ""},
      {"a past key alone",
       FromX(17, {1, 6, 8},
             lengths + Input("p", kFloat32, {1, 1, 3, 2}) +
                 Microsoft("GroupQueryAttention", {"x", "", "", "p", "", "l", "n"}, {"y"},
                           two + Int("kv_num_heads", 1))),
       "one of past_key and past_value is missing"},
      {"no heads", grouped(0, 1, packed), "num_heads=0, kv_num_heads=1, expected 1 to 1048576"},
      {"no key heads", grouped(2, 0, packed), "num_heads=2, kv_num_heads=0"},
      {"too many heads", grouped(1048577, 1, packed), "num_heads=1048577, kv_num_heads=1"},
      {"heads whose number wraps to 0", grouped(kMost - 1, (int64_t{1} << 62) + 1, packed),
       "num_heads=9223372036854775806, kv_num_heads=4611686018427387905"},
      {"packed, of two axes",
       FromX(
           17, {6, 8},
           lengths + Microsoft("GroupQueryAttention", packed, {"y"}, two + Int("kv_num_heads", 1))),
       "packed queries, keys and values of [6, 8]"},
      {"an input that is not known", grouped(2, 1, {"x", "", "", "", "", "l", "n", "", "", "x"}),
       "input 9"},
  };
}

std::vector<OnnxCase> RotaryCases() {
  const auto rotary = [&](const Sizes& x, const Sizes& places, const std::string& attributes,
                          int64_t cosines = 2) {
    return FromX(17, x,
                 Input("p", kInt64, places) + Input("c", kFloat32, {9, cosines}) +
                     Microsoft("RotaryEmbedding", {"x", "p", "c", "c"}, {"y"}, attributes));
  };
  return {
      {"good, rotary", rotary({1, 6, 8}, {1, 6}, ""), ""},
      {"rotary of any rank",
       FromAnyX(17, Input("p", kInt64, {1, 6}) + Input("c", kFloat32, {9, 2}) +
                        Microsoft("RotaryEmbedding", {"x", "p", "c", "c"}, {"y"})),
       "inputs of unknown rank"},
      {"rotary of a scale", rotary({1, 6, 8}, {1, 6}, Float("scale", 2)), "scale=2"},
      {"good, one place of four axes", rotary({1, 2, 6, 4}, {1}, ""), ""},
      {"one place of two axes", rotary({6, 4}, {1}, ""), "one place for an input of [6, 4]"},
      {"heads of free cosines", rotary({1, 6, 8}, {1, 6}, "", -1), "an unknown number of heads"},
      {"heads of no cosines", rotary({1, 6, 8}, {1, 6}, "", 0), "an unknown number of heads"},
  };
}

std::vector<OnnxCase> MicrosoftCases() {
  const auto from = [&](const std::string& nodes) { return FromX(17, {1, 6, 4}, nodes); };
  // K = 32, N = 2: two blocks of 16 numbers of 4 bits, 8 bytes each, for each column.
  struct Product {
    int64_t k = 32, n = 2, block = 16, bits = 4;
    Sizes weights = {2, 2, 8}, scales = {4}, zeros = {4};
    int weight_type = kUint8, scale_type = kFloat32, zero_type = kUint8;
    bool constant = true;
    Names inputs = {"x", "w", "s", "z"};
  };
  const auto product = [&](auto change) {
    Product p;
    change(p);
    return FromX(17, {1, 32},
                 (p.constant ? Constant("w", p.weight_type, p.weights)
                             : Input("w", p.weight_type, p.weights)) +
                     Constant("s", p.scale_type, p.scales) + Constant("z", p.zero_type, p.zeros) +
                     Microsoft("MatMulNBits", p.inputs, {"y"},
                               Int("K", p.k) + Int("N", p.n) + Int("block_size", p.block) +
                                   Int("bits", p.bits)));
  };
  using P = Product&;
  const auto rows = [](const Sizes& data, const Sizes& scales, const std::string& attributes,
                       bool constant = true, int type = kUint8) {
    return WriteOnnx(17, Input("i", kInt64, {1}) +
                             (constant ? Constant("w", type, data) : Input("w", type, data)) +
                             Constant("s", kFloat32, scales) +
                             Microsoft("GatherBlockQuantized", {"w", "i", "s"}, {"y"}, attributes) +
                             Output("y"));
  };
  const std::string block = Int("block_size", 16);
  return {
      {"good, rows of packed numbers", rows({2, 8}, {2, 1}, block), ""},
      {"rows of packed numbers without scales",
       WriteOnnx(17, Input("i", kInt64, {1}) + Constant("w", kUint8, {2, 8}) +
                         Microsoft("GatherBlockQuantized", {"w", "i", ""}, {"y"}, block) +
                         Output("y")),
       "input 2 is missing"},
      {"rows that are computed", rows({2, 8}, {2, 1}, block, false),
       "weights that are not constant"},
      {"rows of 3 bits", rows({2, 8}, {2, 1}, block + Int("bits", 3)),
       "bits=3, expected 2, 4 or 8"},
      {"rows in blocks of none", rows({2, 8}, {2, 1}, Int("block_size", 0)),
       "input 0 is uint8[2, 8], block_size=0"},
      {"rows of floats", rows({2, 8}, {2, 1}, block, true, kFloat32),
       "input 0 is float32[2, 8], block_size=16"},
      {"columns of packed numbers", rows({2, 8}, {1, 8}, block + Int("quantize_axis", 0)),
       "quantize_axis 0 of packed bytes"},
      {"rows with other scales", rows({2, 8}, {2, 2}, block),
       "scales are float32[2, 2] for uint8[2, 8] of 4 bits in blocks of 16"},
      {"a Gemm with an operator of two values behind it",
       FromX(17, {2, 2}, Microsoft("FusedGemm", {"x", "x"}, {"y"}, Text("activation", "Add"))),
       "activation 'Add'"},
      {"good, FastGelu", from(Microsoft("FastGelu", {"x"}, {"y"})), ""},
      {"FastGelu of nothing", from(Microsoft("FastGelu", {""}, {"y"})), "input 0 is missing"},
      {"a deviation that is read",
       from(Constant("s", kFloat32, {4}) +
            Microsoft("SimplifiedLayerNormalization", {"x", "s"}, {"y", "d"}) + Output("d")),
       "output 1 (the inverse deviation) is read"},
      {"an activation of FusedConv",
       from(Constant("w", kFloat32, {6, 6, 1}) +
            Microsoft("FusedConv", {"x", "w"}, {"y"}, Text("activation", "Cosh"))),
       "activation 'Cosh'"},
      {"good, a transposed product of any rank",
       FromAnyX(17, Microsoft("FusedMatMul", {"x", "x"}, {"y"}, Int("transA", 1))), ""},
      {"a batch of any rank that is transposed",
       FromAnyX(17, Microsoft("FusedMatMul", {"x", "x"}, {"y"}, Int("transBatchA", 1))),
       "a transposed input 0 of unknown rank"},
      {"good, sums of a mask that is not there",
       WriteOnnx(17, Input("i", kInt32, {1, 2}) + Constant("w", kFloat32, {3, 4}) +
                         Constant("g", kFloat32, {4}) +
                         Microsoft("EmbedLayerNormalization", {"i", "", "w", "w", "", "g", "g"},
                                   {"y", "m"}) +
                         Output("y") + Output("m")),
       ""},
      {"good, a product of 4 bits", product([](P p) { p.zeros = {2}; }), ""},
      {"good, float zero points", product([](P p) { p.zero_type = kFloat32; }), ""},
      {"a product of 3 bits", product([](P p) { p.bits = 3; }), "bits=3, expected 2, 4 or 8"},
      {"K 0", product([](P p) { p.k = 0; }), "K=0, N=2, block_size=16"},
      {"N 0", product([](P p) { p.n = 0; }), "K=32, N=0, block_size=16"},
      {"K N beyond 64 bits", product([](P p) { p.k = kMost; }), "K=9223372036854775807, N=2"},
      {"K N beyond 2^36", product([](P p) { p.k = (int64_t{1} << 35) + 1; }),
       "K=34359738369, N=2, block_size=16"},
      {"a block of 8", product([](P p) { p.block = 8; }), "K=32, N=2, block_size=8"},
      {"a block of 24", product([](P p) { p.block = 24; }), "K=32, N=2, block_size=24"},
      {"a block of 2^21", product([](P p) { p.block = 1 << 21; }), "K=32, N=2, block_size=2097152"},
      {"a block of 2^62", product([](P p) { p.block = int64_t{1} << 62; }),
       "K=32, N=2, block_size=4611686018427387904"},
      {"an order of groups", product([](P p) { p.inputs = {"x", "w", "s", "", "z"}; }),
       "input 4 (g_idx)"},
      {"computed weights", product([](P p) { p.constant = false; }),
       "weights that are not constant"},
      {"too few weights", product([](P p) { p.weights = {2, 2, 7}; }),
       "input 1 is uint8[2, 2, 7], expected uint8[2, 2, 8]"},
      {"weights of integers", product([](P p) { p.weight_type = kInt32; }),
       "input 1 is int32[2, 2, 8], expected uint8[2, 2, 8]"},
      {"too few scales", product([](P p) { p.scales = {3}; }),
       "input 2 is float32[3], expected 4 scales"},
      {"too few float zero points", product([](P p) { p.zero_type = kFloat32, p.zeros = {3}; }),
       "input 3 is float32[3]"},
      {"too many zero points", product([](P) {}), "input 3 is uint8[4], expected 2 bytes"},
  };
}

std::vector<OnnxCase> QonnxCases() {
  const std::string domain = "qonnx.custom_op.general";
  const auto trunc = [&](float scale, float out_bits) {
    return FromX(17, {2, 4},
                 Constant("s", kFloat32, {}, scale) + Constant("z", kFloat32, {}, 0) +
                     Constant("b", kFloat32, {}, 8) + Constant("o", kFloat32, {}, out_bits) +
                     Node("Trunc", {"x", "s", "z", "b", "s", "z", "o"}, {"y"}, "", domain));
  };
  const auto thresholds = [&](const Sizes& sizes, const Sizes& x) {
    return FromX(
        17, x,
        Constant("t", kFloat32, sizes) + Node("MultiThreshold", {"x", "t"}, {"y"}, "", domain));
  };
  return {
      {"good, Trunc to 4 bits", trunc(1, 4), ""},
      {"Trunc to 17 bits", trunc(1, 17), "bit width 17, expected 1 to 16"},
      {"Trunc by a negative scale", trunc(-1, 4), "scales -1 and -1, expected numbers above 0"},
      {"good, 7 thresholds", thresholds({4, 7}, {2, 4}), ""},
      {"thresholds in a row", thresholds({7}, {2, 4}), "the thresholds must be a constant matrix"},
      {"thresholds of a row", thresholds({4, 7}, {4}), "x is [4], expected a rank of 2 or more"},
      {"thresholds of other channels", thresholds({3, 7}, {2, 4}),
       "thresholds of 3 channels for 4 of x"},
      {"5000 thresholds", thresholds({1, 5000}, {2, 4}), "5000 thresholds, expected 1 to 4095"},
  };
}

std::vector<OnnxCase> QuantizedCases() {
  const std::string s = Constant("s", kFloat32, {}), z = Constant("z", kUint8, {}, 3);
  const auto linear = [&](const std::string& op, const Names& inputs,
                          const std::string& attributes = "", const std::string& domain = "") {
    return WriteOnnx(17, Input("x", kUint8, {2, 4}) + s + z +
                             Node(op, inputs, {"y"}, attributes, domain) + Output("y"));
  };
  const std::string ms = "com.microsoft";
  struct Grid {
    float zero = 0, bits = 8;
    Sizes scale = {}, zeros = {};
    int scale_type = kFloat32;
    std::string attributes;
  };
  const auto quant = [&](auto change) {
    Grid g;
    change(g);
    return FromX(
        17, {2, 4},
        Constant("s", g.scale_type, g.scale) + Constant("z", kFloat32, g.zeros, g.zero) +
            Constant("b", kFloat32, {}, g.bits) +
            Node("Quant", {"x", "s", "z", "b"}, {"y"}, g.attributes, "qonnx.custom_op.general"));
  };
  using G = Grid&;
  const auto fake = [](int64_t levels) {
    return FromX(17, {2, 4},
                 Constant("l", kFloat32, {}, 0) + Constant("h", kFloat32, {}, 1) +
                     Node("FakeQuantize", {"x", "l", "h", "l", "h"}, {"y"}, Int("levels", levels),
                          "org.openvinotoolkit"));
  };
  return {
      {"good, QLinearSigmoid", linear("QLinearSigmoid", {"x", "s", "z", "s", "z"}, "", ms), ""},
      {"QLinearMatMul of 7 inputs", linear("QLinearMatMul", {"x", "s", "z", "x", "s", "z", "s"}),
       "7 inputs, expected at least 8"},
      {"good, channels that are not last",
       WriteOnnx(17, Input("x", kUint8, {1, 2, 3, 3}) + s + z +
                         Node("QLinearGlobalAveragePool", {"x", "s", "z", "s", "z"}, {"y"},
                              Int("channels_last", 0), ms) +
                         Output("y")),
       ""},
      {"channels last",
       linear("QLinearGlobalAveragePool", {"x", "s", "z", "s", "z"}, Int("channels_last", 1), ms),
       "channels_last=1"},
      {"good, QLinearConcat",
       linear("QLinearConcat", {"s", "z", "x", "s", "z"}, Int("axis", 0), ms), ""},
      {"QLinearConcat of 4 inputs",
       linear("QLinearConcat", {"s", "z", "x", "s"}, Int("axis", 0), ms),
       "4 inputs, expected 2 and 3 for each part"},
      {"QLinearConcat of 6 inputs",
       linear("QLinearConcat", {"s", "z", "x", "s", "z", "x"}, Int("axis", 0), ms),
       "6 inputs, expected 2 and 3 for each part"},
      {"QLinearWhere of 7 inputs",
       linear("QLinearWhere", {"x", "x", "s", "z", "x", "s", "z"}, "", ms), "7 inputs, expected 9"},
      {"QLinearWhere without a scale",
       linear("QLinearWhere", {"x", "x", "", "z", "x", "s", "z", "s"}, "", ms),
       "input 2 is omitted, expected a value"},
      {"QLinearSoftmax of opset 11",
       linear("QLinearSoftmax", {"x", "s", "z", "s", "z"}, Int("opset", 11) + Int("axis", 0), ms),
       "axis 0 of [2, 4] in operator set 11"},
      {"a bipolar value without a scale",
       FromX(17, {2}, Node("BipolarQuant", {"x"}, {"y"}, "", "qonnx.custom_op.general")),
       "input 1 is missing"},
      {"good, FakeQuantize of 256 levels", fake(256), ""},
      {"FakeQuantize of one level", fake(1), "levels=1, expected 2 to 65536"},
      {"FakeQuantize of no bounds",
       FromX(17, {2}, Node("FakeQuantize", {"x"}, {"y"}, "", "org.openvinotoolkit")),
       "input 1 is missing"},
      {"good, 8 bits", quant([](G) {}), ""},
      {"good, 16 bits", quant([](G g) { g.bits = 16; }), ""},
      {"good, a scale per column", quant([](G g) { g.scale = {4}; }), ""},
      {"two zero points", quant([](G g) { g.zeros = {2}; }),
       "the zero point must be a constant number"},
      {"good, rounding down", quant([](G g) { g.attributes = Text("rounding_mode", "FLOOR"); }),
       ""},
      {"good, rounding away from 0", quant([](G g) { g.attributes = Text("rounding_mode", "UP"); }),
       ""},
      {"another rounding", quant([](G g) { g.attributes = Text("rounding_mode", "NEAR"); }),
       "rounding_mode NEAR, expected ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP or "
       "HALF_DOWN"},
      {"good, 32 bits", quant([](G g) { g.bits = 32; }), ""},
      {"0 bits", quant([](G g) { g.bits = 0; }), "bit width 0, expected 1 to 32"},
      {"33 bits", quant([](G g) { g.bits = 33; }), "bit width 33, expected 1 to 32"},
      {"7.5 bits", quant([](G g) { g.bits = 7.5f; }), "bit width 7.5, expected 1 to 32"},
      {"a zero point of a half", quant([](G g) { g.zero = 0.5f; }),
       "zero point 0.5, expected an integer"},
      {"a zero point of 65536", quant([](G g) { g.zero = 65536; }),
       "zero point 65536, expected an integer"},
      {"good, zero point 127", quant([](G g) { g.zero = 127; }), ""},
      {"zero point 128", quant([](G g) { g.zero = 128; }), "zero point 128 outside int8"},
      {"scales of integers", quant([](G g) { g.scale_type = kInt32; }),
       "the scale must be a float constant"},
      {"three scales", quant([](G g) { g.scale = {3}; }),
       "a scale of shape [3] for a value of shape [2, 4], expected one number or one per index"},
  };
}

}  // namespace

const std::vector<OnnxCase>& OnnxCases() {
  static const std::vector<OnnxCase> all = [] {
    std::vector<OnnxCase> cases;
    for (auto make : {StructureCases, UpgradeCases, AttentionCases, RotaryCases, MicrosoftCases,
                      QonnxCases, QuantizedCases}) {
      for (OnnxCase& c : make()) cases.push_back(std::move(c));
    }
    return cases;
  }();
  return all;
}

}  // namespace evoq::craft
