// What quantize, inspect, run, eval and bench say, against figures worked out by hand or from the
// files themselves.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/isa.h"
#include "data/dataset.h"
#include "onnx/onnx.h"
#include "reference/reference.h"
#include "tests/whole/cli_runner.h"

namespace evoq {
namespace {

using nlohmann::json;

class CliValues : public CliRunner {
 protected:
  std::string Export(Graph graph, const std::string& name) const {
    EXPECT_TRUE(graph.Sort());
    const Status typed = InferTypes(graph);
    EXPECT_TRUE(typed) << typed.error().message();
    const Status written = ExportOnnx(graph, At(name));
    EXPECT_TRUE(written) << written.error().message();
    return At(name);
  }
  static Tensor Numbers(const Shape& shape, const std::function<float(int64_t)>& value) {
    Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
    for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = value(i);
    return t;
  }
  std::string Npy(const std::string& name, const Tensor& t) const {
    EXPECT_TRUE(WriteNpy(t, At(name)));
    return At(name);
  }

  // conv (3 -> 8, 3x3, padded, bias) on [1, 3, 6, 6], Relu, Flatten, product (288 -> 10) and sum
  // with 10 numbers.
  std::string Small() const {
    Graph g;
    const ValueId x = g.AddInput("image", TensorType(DType::kFloat32, Shape{1, 3, 6, 6}));
    Attrs pads;
    pads.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    const auto wave = [](int64_t i) { return std::sin(static_cast<float>(i)); };
    ValueId y = g.Apply("Conv", "conv",
                        {x, g.AddConstant("w", Numbers({8, 3, 3, 3}, wave)),
                         g.AddConstant("b", Numbers({8}, wave))},
                        pads);
    y = g.Apply("Flatten", "flat", {g.Apply("Relu", "relu", {y})});
    y = g.Apply("MatMul", "product", {y, g.AddConstant("v", Numbers({288, 10}, wave))});
    g.MarkOutput(g.Apply("Add", "scores", {y, g.AddConstant("c", Numbers({10}, wave))}));
    return Export(std::move(g), "small.onnx");
  }
  static constexpr int64_t kConv = 8 * 3 * 3 * 3, kProduct = 288 * 10, kBiases = 8 + 10;
  static constexpr int64_t kMacs = 8 * 36 * 27 + 2880;

  // y = x, with columns 0 and 1 exchanged where `swapped`.
  std::string Identity(const std::string& name, bool swapped) const {
    Graph g;
    const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 7}));
    const auto one = [&](int64_t i) {
      const int64_t row = i / 7, column = i % 7, wanted = swapped && row < 2 ? 1 - row : row;
      return column == wanted ? 1.0f : 0.0f;
    };
    g.MarkOutput(g.Apply("MatMul", "y", {x, g.AddConstant("w", Numbers({7, 7}, one))}));
    return Export(std::move(g), name);
  }
  // Ranks of the labels: 0, 1, 1 (a tie counts for the lower index), 0, 4, 5.
  std::string Rows() const {
    return Npy("rows.npy",
               Tensor::FromValues<float>(
                   Shape{6, 7}, {4, 1, 2, 3, 0, 0, 0, 1, 4, 2, 3, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0,
                                 2, 2, 1, 0, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5, 4, 3}));
  }
  std::string LabelsOfRows() const {
    return Npy("labels.npy", Tensor::FromValues<int64_t>(Shape{6}, {0, 3, 1, 0, 4, 5}));
  }
};

TEST_F(CliValues, Inspect) {
  const std::string onnx = Small();
  const json float_model = Json({"inspect", onnx});
  EXPECT_EQ(float_model["model"], onnx);
  EXPECT_EQ(float_model["inputs"],
            json::parse(R"([{"name": "image", "dtype": "float32", "shape": [1, 3, 6, 6]}])"));
  EXPECT_EQ(float_model["outputs"],
            json::parse(R"([{"name": "scores", "dtype": "float32", "shape": [1, 10]}])"));
  EXPECT_EQ(float_model["operators"],
            json::parse(R"({"Conv": 1, "Relu": 1, "Flatten": 1, "MatMul": 1, "Add": 1})"));
  EXPECT_EQ(float_model["nodes"], 5);
  EXPECT_EQ(float_model["parameters"], kConv + kProduct + kBiases);
  EXPECT_EQ(float_model["weight_bytes"], 4 * (kConv + kProduct + kBiases));
  EXPECT_EQ(float_model["precisions"], (json{{"float32", kConv + kProduct + kBiases}}));
  EXPECT_EQ(float_model["macs"], kMacs);
  Json({"quantize", onnx, "--calib-random", "4", "-o", At("small.etm")});
  const json int8 = Json({"inspect", At("small.etm")});
  EXPECT_EQ(int8["parameters"], kConv + kProduct + kBiases);
  EXPECT_EQ(int8["precisions"], (json{{"int8", kConv + kProduct}, {"int32", kBiases}}));
  EXPECT_EQ(int8["metadata"]["evoq.scheme"], "int8");
  EXPECT_EQ(int8["metadata"]["evoq.float_weight_bytes"],
            std::to_string(4 * (kConv + kProduct + kBiases)));
}

// Bodies of If hold weights too: 6 and 4 numbers beside 3.
TEST_F(CliValues, InspectCountsWhatIsInSubgraphs) {
  Graph g;
  const ValueId condition = g.AddInput("condition", TensorType(DType::kBool, Shape{}));
  const auto body = [&](int64_t rows) {
    auto b = std::make_shared<Graph>();
    const ValueId w = b->AddConstant(
        "w", Numbers({rows, 1}, [](int64_t i) { return static_cast<float>(i) + 1; }));
    Attrs attrs;
    attrs.Set("keepdims", int64_t{0});
    b->MarkOutput(b->Apply("ReduceMax", "most", {w}, attrs));
    EXPECT_TRUE(b->Sort());
    EXPECT_TRUE(InferTypes(*b));
    return b;
  };
  const ValueId y = g.AddValue("picked", TensorType(DType::kFloat32, Shape{}));
  Node node{.op = "If", .name = "if", .inputs = {condition}, .outputs = {y}};
  node.bodies = {body(6), body(4)};
  g.AddNode(std::move(node));
  g.MarkOutput(g.Apply("Mul", "scaled",
                       {y, g.AddConstant("k", Numbers({3}, [](int64_t) { return 2.0f; }))}));
  const json inspected = Json({"inspect", Export(std::move(g), "if.onnx")});
  EXPECT_EQ(inspected["parameters"], 13);
  EXPECT_EQ(inspected["weight_bytes"], 52);
  EXPECT_EQ(inspected["precisions"], (json{{"float32", 13}}));
}

TEST_F(CliValues, Quantize) {
  const std::string onnx = Small();
  const std::string images =
      Npy("images.npy",
          Numbers({10, 3, 6, 6}, [](int64_t i) { return std::cos(static_cast<float>(i * 7)); }));
  struct Case {
    const char* scheme;
    int64_t weight_bytes;  // of what is no float32 any more
  };
  // Weights only: all of at least 256 elements.
  for (const Case& c :
       {Case{"int8", kConv + kProduct}, Case{"int8-dynamic", kConv + kProduct},
        Case{"int8-weights", kProduct}, Case{"bf16", 2 * (kConv + kProduct)}, Case{"float32", 0}}) {
    const json q =
        Json({"quantize", onnx, "--scheme", c.scheme, "--calib", images, "-o", At("q.etm")});
    EXPECT_EQ(q["input_bytes"], SizeOf("small.onnx"));
    EXPECT_EQ(q["output_bytes"], SizeOf("q.etm"));
    EXPECT_EQ(q["float_weight_bytes"], 4 * (kConv + kProduct + kBiases)) << c.scheme;
    EXPECT_EQ(q["quantized_weight_bytes"], c.weight_bytes) << c.scheme;
    EXPECT_EQ(q["samples_used"], std::string_view(c.scheme) == "int8" ? 10 : 0) << c.scheme;
    EXPECT_EQ(q["warnings"], json::array()) << c.scheme;
    EXPECT_GT(q["seconds"], 0);
    if (std::string_view(c.scheme) != "int8" && std::string_view(c.scheme) != "bf16") continue;
    // The steps are those that profile runs.
    std::map<std::string, int> precisions;
    const json profile = Json(
        {"profile", At("q.etm"), "--threads", "1", "--duration-s", "0.01", "--warmup-ms", "1"});
    for (const json& step : profile["steps"]) ++precisions[step["precision"]];
    EXPECT_EQ(q["steps_int8"], precisions["int8"]) << c.scheme;
    EXPECT_EQ(q["steps_bf16"], precisions["bf16"]) << c.scheme;
    EXPECT_EQ(q["steps_float"], precisions["float32"]) << c.scheme;
    EXPECT_EQ(q["steps_total"], profile["steps"].size()) << c.scheme;
    EXPECT_GE(precisions[c.scheme], 2) << c.scheme;
  }
  const json kept = Json({"quantize", onnx, "--calib", images, "--exclude", "conv", "--calib-limit",
                          "4", "-o", At("q.etm")});
  EXPECT_EQ(kept["samples_used"], 4);
  EXPECT_EQ(kept["quantized_weight_bytes"], kProduct);
  EXPECT_EQ(kept["float_reasons"]["conv"],
            "excluded: the name matches the excluded pattern \"conv\"");
  const json qdq = Json({"quantize", onnx, "--calib", images, "-o", At("q.onnx")});
  EXPECT_EQ(qdq["output_bytes"], SizeOf("q.onnx"));
  EXPECT_EQ(qdq["steps_total"], qdq["steps_int8"].get<int>() + qdq["steps_bf16"].get<int>() +
                                    qdq["steps_float"].get<int>());
  EXPECT_EQ(qdq["quantized_weight_bytes"], kConv + kProduct);
}

// Of models that run in dynamic partitions: the steps of a run, or the nodes, and why.
TEST_F(CliValues, StepsOfModelsWithoutAPlan) {
  const auto wave = [](int64_t i) { return std::sin(static_cast<float>(i)); };
  const auto product = [&](Graph& g, const char* name, ValueId x) {
    return g.Apply("MatMul", name,
                   {x, g.AddConstant(std::string(name) + ".w", Numbers({16, 16}, wave))});
  };
  Graph found;
  const ValueId x = found.AddInput("x", TensorType(DType::kFloat32, Shape{4, 16}));
  found.MarkOutput(found.Apply("NonZero", "places", {product(found, "before", x)}));
  const std::string partitions = Export(std::move(found), "found.onnx");
  const json ran =
      Json({"quantize", partitions, "--scheme", "int8-dynamic", "-o", At("found.etm")});
  // DynamicQuantizeLinear and the product in integers; what is said does not depend on where it is
  // written to.
  EXPECT_EQ(ran["steps_int8"], 2) << ran;
  EXPECT_GT(ran["steps_total"], 2) << ran;
  EXPECT_FALSE(ran.contains("steps_why")) << ran;
  const json nowhere =
      Json({"quantize", partitions, "--scheme", "int8-dynamic", "-o", "/dev/null"});
  for (const char* field : {"steps_total", "steps_int8", "steps_bf16", "steps_float", "steps_why"})
    EXPECT_EQ(nowhere.value(field, json()), ran.value(field, json())) << field;

  // Sizes that nobody names: the nodes are counted, those of branches too, and the reason
  // names the option.
  auto picks = ParseGraph(R"(graph g
input %x: float32[2, N, 16]
input %c: bool[]
if: %y = If{captured=1}(%c, %x)
| graph "then"
| input %a: float32[...]
| const %w: float32[16, 16]
| t: %b = MatMul(%a, %w)
| output %b
| graph "else"
| input %a: float32[...]
| const %w: float32[16, 16]
| e: %b = MatMul(%a, %w)
| output %b
const %v: float32[16, 32]
after: %z = MatMul(%y, %v)
output %z
)");
  ASSERT_TRUE(picks) << picks.error().message();
  const std::string branches = Export(std::move(*picks), "branches.onnx");
  const json nodes = Json({"quantize", branches, "--scheme", "int8-weights", "-o", At("if.etm")});
  EXPECT_EQ(nodes["steps_total"], 3) << nodes;
  EXPECT_EQ(nodes["steps_int8"], 0) << nodes;
  EXPECT_EQ(nodes["steps_float"], 3) << nodes;
  EXPECT_EQ(nodes["int8_weights"], 3) << nodes;
  EXPECT_NE(nodes["steps_why"].get<std::string>().find("--shape x="), std::string::npos) << nodes;
  EXPECT_TRUE(nodes["float_reasons"].empty()) << nodes;
  const json kept = Json({"quantize", branches, "--scheme", "bf16", "-o", At("if.etm")});
  for (const char* name : {"if/t", "if/e"})
    EXPECT_EQ(kept["float_reasons"][name],
              "in-subgraph: the scheme leaves the weights of such layers in subgraphs as they are");
  const json sized = Json({"quantize", branches, "--scheme", "int8-weights", "--shape", "x=2x3x16",
                           "-o", At("if.etm")});
  EXPECT_FALSE(sized.contains("steps_why")) << sized;
  EXPECT_GE(sized["steps_total"], 2) << sized;
}

TEST_F(CliValues, QuantizeWarnsOfDataThatCannotHaveBeenMeant) {
  const std::string onnx = Small();
  const std::string zeros = Npy("zeros.npy", Numbers({5, 3, 6, 6}, [](int64_t) { return 0.0f; }));
  const Ran ran =
      Run({"quantize", onnx, "--calib", zeros, "-o", At("q.etm"), "--save-ranges", At("r.json")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  const auto warnings = ran.json["warnings"].get<std::vector<std::string>>();
  ASSERT_EQ(warnings.size(), 2) << ran.json["warnings"];
  EXPECT_EQ(warnings[0].substr(0, 44), "calibration: all 5 samples are identical: a ");
  EXPECT_EQ(warnings[1].substr(0, 62),
            "calibration: input image is 0 everywhere in every sample: data");
  for (const std::string& w : warnings)
    EXPECT_NE(ran.log.find("warning: " + w + "\n"), std::string::npos) << ran.log;
  // Of ranges from a file, those without a width.
  std::string ranges = ReadTextFile(At("r.json")).value();
  const size_t at = ranges.find("\"relu\": [");
  ASSERT_NE(at, std::string::npos) << ranges;
  ranges.replace(at, ranges.find(']', at) + 1 - at, "\"relu\": [0, 0]");
  ASSERT_TRUE(WriteFileAtomic(At("dead.json"), ranges));
  const json dead = Json({"quantize", onnx, "--ranges", At("dead.json"), "-o", At("q.etm")});
  ASSERT_EQ(dead["warnings"].size(), 1) << dead["warnings"];
  EXPECT_NE(dead["warnings"][0].get<std::string>().find(
                "activations are dead, 0 in all samples (relu): "),
            std::string::npos)
      << dead["warnings"];
}

// Two inputs of different types, from an .npz, from a file for each, and from a --config file.
TEST_F(CliValues, SeveralInputsFromFiles) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 7})),
                ids = g.AddInput("ids", TensorType(DType::kInt64, Shape{1, 7}));
  Attrs to;
  to.Set("to", int64_t{1});
  const ValueId w =
      g.AddConstant("w", Numbers({7, 7}, [](int64_t i) { return i % 8 == 0 ? 1.0f : 0.0f; }));
  g.MarkOutput(
      g.Apply("MatMul", "y", {g.Apply("Add", "sum", {x, g.Apply("Cast", "cast", {ids}, to)}), w}));
  const std::string onnx = Export(std::move(g), "two.onnx");
  const std::string rows = Rows(),
                    zeros =
                        Npy("ids.npy", Tensor::Allocate(TensorType(DType::kInt64, Shape{6, 7})));
  const json q = Json(
      {"quantize", "--calib", "x=" + rows, "--calib", "ids=" + zeros, onnx, "-o", At("two.etm")});
  EXPECT_EQ(q["samples_used"], 6);
  // y = x + ids: the accuracies of Eval below.
  const json e = Json({"eval", onnx, "--data", "ids=" + zeros, "--data", "x=" + rows, "--labels",
                       LabelsOfRows(), "--reference", onnx});
  EXPECT_EQ(e["samples"], 6);
  EXPECT_NEAR(e["top1"].get<double>(), 2.0 / 6, 1e-12);
  EXPECT_NEAR(e["top5"].get<double>(), 5.0 / 6, 1e-12);
  EXPECT_EQ(e["agreement"], 1);
  ASSERT_TRUE(
      WriteFileAtomic(At("config.json"),
                      json{{"calib", {"x=" + rows, "ids=" + zeros}}, {"calib_limit", 3}}.dump()));
  EXPECT_EQ(
      Json({"quantize", onnx, "--config", At("config.json"), "-o", At("two.etm")})["samples_used"],
      3);
  const Ran refused = Run({"quantize", onnx, "--calib", rows, "-o", At("two.etm")}, false);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.log.find("the model has 2 inputs (x, ids): expected an .npz whose arrays are "
                             "named as the inputs, a folder of such files, or NAME=FILE for "
                             "each input"),
            std::string::npos)
      << refused.log;
  const Ran promised = Run({"quantize", onnx, "--scheme", "float32", "--min-sqnr", "10", "--data",
                            "x=" + rows, "--data", "ids=" + zeros, "--measure-s", "0.02",
                            "--threads", "1", "-o", At("sure.etm")});
  EXPECT_LE(promised.code, 1) << promised.log;
  if (promised.code == 1) return;  // the machine is too busy for a promise
  const Ran verified = Run({"verify", At("sure.etm"), "--data", "x=" + rows, "--data",
                            "ids=" + zeros, "--measure-s", "0.02", "--baseline", onnx},
                           false);
  EXPECT_EQ(verified.log.find("data sets feed models with one"), std::string::npos) << verified.log;
  EXPECT_LE(verified.code, 1) << verified.log;
}

// Right at rank 0: samples 0 and 3; below rank 5: all but the last. The reference exchanges the
// first two scores: the class stays in samples 2 and 3. Signal 30 + 30 + 9 + 9 + 280 + 280 = 638,
// noise 18 + 18 + 2 + 2 = 40.
TEST_F(CliValues, Eval) {
  const std::string model = Identity("model.onnx", false),
                    reference = Identity("reference.onnx", true);
  const json e = Json({"eval", model, "--data", Rows(), "--labels", LabelsOfRows(), "--reference",
                       reference, "--predictions", At("p.tsv")});
  EXPECT_EQ(e["model"], model);
  EXPECT_EQ(e["samples"], 6);
  EXPECT_NEAR(e["top1"].get<double>(), 2.0 / 6, 1e-12);
  EXPECT_NEAR(e["top5"].get<double>(), 5.0 / 6, 1e-12);
  EXPECT_NEAR(e["agreement"].get<double>(), 2.0 / 6, 1e-12);
  EXPECT_NEAR(e["sqnr_db"].get<double>(), 10 * std::log10(638.0 / 40), 1e-9);
  EXPECT_GT(e["ms_per_sample"], 0);
  EXPECT_EQ(ReadTextFile(At("p.tsv")).value(),
            "file\tclass\nrows.npy[0]\t0\nrows.npy[1]\t1\nrows.npy[2]\t0\nrows.npy[3]\t0\nrows.npy["
            "4]\t0\nrows.npy[5]\t0\n");
  const json two =
      Json({"eval", model, "--data", Rows(), "--labels", LabelsOfRows(), "--limit", "2"});
  EXPECT_EQ(two["samples"], 2);
  EXPECT_EQ(two["top1"], 0.5);
  EXPECT_EQ(two["top5"], 1);
  EXPECT_TRUE(two["agreement"].is_null());
  const json none = Json({"eval", model, "--data", Rows()});
  EXPECT_TRUE(none["top1"].is_null());
  EXPECT_TRUE(none["top5"].is_null());
  const Ran far = Run({"eval", model, "--data", Rows(), "--labels",
                       Npy("far.npy", Tensor::FromValues<int64_t>(Shape{6}, {0, 0, 7, 0, 0, 0}))},
                      false);
  EXPECT_EQ(far.code, 3);
  EXPECT_NE(far.log.find("rows.npy[2]: label 7 of a model with 7 classes"), std::string::npos)
      << far.log;
}

// y = x and z = 2 x of the rows above, in the reference y = x and z = 2.5 x: y is equal, z has the
// noise (0.5 x)^2 of the signal (2.5 x)^2, 10 log10(25) dB. The worst counts, wherever it stands.
TEST_F(CliValues, EvalOfEveryOutput) {
  const auto times = [&](const std::string& name, const std::vector<float>& factors, int64_t size) {
    Graph g;
    const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 7}));
    for (size_t o = 0; o < factors.size(); ++o) {
      const auto diagonal = [&](int64_t i) { return i / size == i % size ? factors[o] : 0; };
      const ValueId w = g.AddConstant(fmt::format("w{}", o), Numbers({7, size}, diagonal));
      g.MarkOutput(g.Apply("MatMul", fmt::format("{}", "yzu"[o]), {x, w}));
    }
    return Export(std::move(g), name);
  };
  const std::string model = times("model.onnx", {1, 2}, 7);
  for (const bool last : {true, false}) {
    const std::string reference = times(
        "reference.onnx", last ? std::vector<float>{1, 2.5f} : std::vector<float>{1.25f, 2}, 7);
    const Ran ran = CliRunner::Run({"eval", model, "--data", Rows(), "--reference", reference});
    ASSERT_EQ(ran.code, 0) << ran.log;
    const json& outputs = ran.json["outputs"];
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0]["name"], "y");
    EXPECT_EQ(outputs[1]["name"], "z");
    EXPECT_NEAR(outputs[last ? 1 : 0]["sqnr_db"]["value"].get<double>(), 10 * std::log10(25.0),
                1e-9);
    EXPECT_TRUE(outputs[last ? 0 : 1]["sqnr_db"]["value"].is_null()) << "infinite";
    EXPECT_NEAR(ran.json["sqnr_db"].get<double>(), 10 * std::log10(25.0), 1e-9);
    EXPECT_EQ(ran.json["agreement"], 1);
    EXPECT_NE(ran.out.find("signal to noise of the worst output 14.0 dB\n"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find(last ? "       14.0 dB  z\n" : "       14.0 dB  y\n"), std::string::npos)
        << ran.out;
  }
  const auto refused = [&](const std::string& reference) {
    const Ran ran =
        CliRunner::Run({"eval", model, "--data", Rows(), "--reference", reference}, false);
    EXPECT_EQ(ran.code, 3);
    return ran.log;
  };
  const std::string three = refused(times("three.onnx", {1, 2, 3}, 7));
  EXPECT_NE(three.find("model.onnx has 2 outputs, "), std::string::npos) << three;
  EXPECT_NE(three.find("three.onnx has 3\n"), std::string::npos) << three;
  const std::string narrow = refused(times("narrow.onnx", {1, 2}, 6));
  EXPECT_NE(narrow.find("output y of "), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("model.onnx has 7 elements, of "), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("narrow.onnx 6\n"), std::string::npos) << narrow;
}

// The places of what is above 2.5 instead of above 0.5: in the last two rows the same 7, with 14
// coordinates each; in the first four fewer than the 4, 4, 3 and 3 of the reference, which makes
// those wholly wrong. Signal 8 + 8 + 6 + 6 + 14 + 14 = 56, noise 28.
TEST_F(CliValues, EvalOfOutputsWhoseSizesDependOnData) {
  const auto above = [&](const std::string& name, float least) {
    auto graph = ParseGraph(fmt::format(
        "graph g\ninput %x: float32[1, 7]\nconst %least: float32[] = [{}]\n"
        "above: %above = Greater(%x, %least)\nplaces: %y = NonZero(%above)\noutput %y\n",
        least));
    EXPECT_TRUE(graph) << graph.error().message();
    return Export(std::move(*graph), name);
  };
  const json e = Json(
      {"eval", above("few.onnx", 2.5f), "--data", Rows(), "--reference", above("all.onnx", 0.5f)});
  EXPECT_FALSE(e.contains("sqnr_db")) << "no position is compared";
  EXPECT_EQ(e["outputs"][0]["judged"], "size");
  EXPECT_NEAR(e["outputs"][0]["equal"].get<double>(), 2.0 / 6, 1e-9) << "the last two rows";
}

// Scores 2 and 2 tie: the lower class first. Outputs are the files' content.
TEST_F(CliValues, Run) {
  const std::string model = Identity("model.onnx", true);
  const std::string row =
      Npy("row.npy",
          Tensor::FromValues<float>(Shape{1, 7}, {2, -1, 5, 2, 0, 0, 0}));  // -> -1 2 5 2 0 0 0
  ASSERT_TRUE(WriteFileAtomic(At("names.txt"), "ant\nbee\ncat\ndog"));
  const Ran ran = CliRunner::Run({"run", model, "--input", row, "--output-dir", At("out"), "--topk",
                                  "4", "--labels", At("names.txt")});
  ASSERT_EQ(ran.code, 0) << ran.log;
  ASSERT_EQ(ran.json["outputs"].size(), 1);
  const json& out = ran.json["outputs"][0];
  EXPECT_EQ(out["name"], "y");
  EXPECT_EQ(out["dtype"], "float32");
  EXPECT_EQ(out["shape"], (json{1, 7}));
  const auto written = ReadNpy(out["file"].get<std::string>());
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_TRUE(BitEqual(*written, Tensor::FromValues<float>(Shape{1, 7}, {-1, 2, 5, 2, 0, 0, 0})));
  EXPECT_EQ(ran.json["top"], json::parse(R"([{"class": 2, "score": 5.0, "label": "cat"},
                      {"class": 1, "score": 2.0, "label": "bee"},
                      {"class": 3, "score": 2.0, "label": "dog"},
                      {"class": 4, "score": 0.0, "label": ""}])"));
}

// "a/b", "a_b" and "a b" are three files.
TEST_F(CliValues, OutputsWithLikeNamesAreFilesOfTheirOwn) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 2}));
  const std::vector<std::string> names = {"a/b", "a_b", "a b", "a_b_2", ".hidden"};
  for (size_t i = 0; i < names.size(); ++i)
    g.MarkOutput(g.Apply(
        "Mul", names[i],
        {x, g.AddConstant("k", Numbers({1}, [&](int64_t) { return static_cast<float>(i + 1); }))}));
  const std::string model = Export(std::move(g), "names.onnx"),
                    in = Npy("x.npy", Tensor::FromValues<float>(Shape{1, 2}, {1, 2}));
  const json ran = Json({"run", model, "--input", in, "--output-dir", At("out")});
  ASSERT_EQ(ran["outputs"].size(), names.size());
  std::set<std::string> files;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(ran["outputs"][i]["name"], names[i]);
    const std::string file = ran["outputs"][i]["file"];
    EXPECT_TRUE(files.insert(file).second) << file << " twice";
    EXPECT_EQ(std::filesystem::path(file).parent_path(), At("out"));
    const auto y = ReadNpy(file);
    ASSERT_TRUE(y) << y.error().message();
    EXPECT_EQ(y->values<float>()[0], static_cast<float>(i + 1)) << file;
  }
}

// Its figures are functions of the runs, which --export-times lists.
TEST_F(CliValues, Bench) {
  Graph g;
  const ValueId x = g.AddInput(
      "x", TensorType(DType::kFloat32, Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(7)})));
  g.MarkOutput(g.Apply(
      "MatMul", "y",
      {x, g.AddConstant("w", Numbers({7, 7}, [](int64_t i) { return static_cast<float>(i); }))}));
  const std::string model = Export(std::move(g), "free.onnx");
  const json b = Json({"bench", model, "--batch", "3", "--threads", "1", "--duration-s", "0.02",
                       "--warmup-ms", "1", "--iterations", "25", "--percentile", "50,90,95,99,100",
                       "--export-times", At("times.json")});
  EXPECT_EQ(b["model"], model);
  EXPECT_EQ(b["batch"], 3);
  EXPECT_EQ(b["threads"], 1);
  EXPECT_EQ(b["streams"], 1);
  EXPECT_EQ(b["isa"], IsaName(SelectIsa().value()));
  EXPECT_GE(b["runs"], 25);
  EXPECT_NEAR(b["per_second"].get<double>() * b["mean_ms"].get<double>(), 3 * 1e3, 1e-6);
  const std::vector<const char*> rising = {"min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"};
  for (size_t i = 1; i < rising.size(); ++i)
    EXPECT_LE(b[rising[i - 1]].get<double>(), b[rising[i]].get<double>()) << rising[i];
  for (const char* p : {"50", "90", "95", "99"})
    EXPECT_EQ(b["percentiles"][p], b[fmt::format("p{}_ms", p)]) << p;
  EXPECT_GE(b["percentiles"]["100"], b["p99_ms"]);
  EXPECT_GT(b["min_ms"], 0);
  EXPECT_GE(b["load_ms"], b["prepare_ms"]);
  EXPECT_GE(b["weight_bytes"], 4 * 49);
  std::ifstream file(At("times.json"));
  const json times = json::parse(file, nullptr, false);
  ASSERT_TRUE(times.is_array()) << times;
  EXPECT_EQ(times.size(), b["runs"]);
  std::vector<double> ms;
  for (const json& run : times) ms.push_back(run["latencyMs"]);
  std::sort(ms.begin(), ms.end());
  const double mean = std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
  const double tolerance = 1e-4 * ms.back() + 1e-4;  // the file has rounded figures
  EXPECT_NEAR(b["min_ms"].get<double>(), ms[0], tolerance);
  EXPECT_NEAR(b["mean_ms"].get<double>(), mean, tolerance);
  EXPECT_NEAR(b["percentiles"]["100"].get<double>(), ms.back(), tolerance);
  EXPECT_GE(b["p50_ms"].get<double>(), ms[(ms.size() - 1) / 2] - tolerance);
  EXPECT_LE(b["p50_ms"].get<double>(), ms[ms.size() / 2] + tolerance);
}

// Of 30 runs of 2 ms and 30 of 1 ms: half the time, twice the speed, and no doubt about it.
TEST_F(CliValues, CompareSavedRuns) {
  const auto save = [&](const char* name, double ms) {
    json runs = json::array();
    for (int i = 0; i < 30; ++i) runs.push_back({{"latencyMs", ms}});
    EXPECT_TRUE(WriteFileAtomic(At(name), runs.dump()));
    return At(name);
  };
  const std::string slow = save("slow.json", 2), fast = save("fast.json", 1);
  const Ran ran = CliRunner::Run({"compare", slow, fast});
  ASSERT_EQ(ran.code, 0) << ran.log;
  EXPECT_EQ(ran.out,
            fmt::format("A {}: 2.000 ms\nB {}: 1.000 ms\nB is faster: 2.000x of A's speed, "
                        "95% interval 2.000 to 2.000\n",
                        slow, fast));
  EXPECT_EQ(ran.json["a_ms"], 2);
  EXPECT_EQ(ran.json["b_ms"], 1);
  for (const char* field : {"speedup", "speedup_low", "speedup_high"})
    EXPECT_EQ(ran.json[field], 2) << field;
  EXPECT_EQ(ran.json["verdict"], "faster");
  EXPECT_EQ(ran.json["a"]["p50_ms"], 2);
  EXPECT_EQ(ran.json["b"]["model"], fast);
  const Ran back = CliRunner::Run({"compare", fast, slow, "--fail-slower", "99"}, false);
  EXPECT_EQ(back.code, 1);
  EXPECT_NE(back.out.find("B is slower: 0.500x of A's speed, 95% interval 0.500 to 0.500\n"),
            std::string::npos)
      << back.out;
  EXPECT_NE(back.log.find("B is 100.0% slower than A, at most 99% are allowed"), std::string::npos)
      << back.log;
  EXPECT_EQ(CliRunner::Run({"compare", fast, slow, "--fail-slower", "101"}).code, 0);
  EXPECT_EQ(Json({"compare", slow, slow})["verdict"], "same");
}

// A repair that keeps the outputs is made; one that changes them is named, and made when that is
// accepted.
TEST_F(CliValues, ExplainFixAsks) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 8, 6, 6}));
  const auto pair = [&](ValueId v, float scale, int zero) {
    const TensorType type(DType::kUint8, g.value(v).type.shape,
                          QuantParams::PerTensor(scale, zero));
    const ValueId q = g.Apply("QuantizeLinear", "q", {v}, {}, type);
    const ValueId dq = g.Apply("DequantizeLinear", "dq", {q}, {},
                               TensorType(DType::kFloat32, g.value(v).type.shape));
    EXPECT_TRUE(InferTypes(g));
    return dq;
  };
  QuantParams params;
  params.axis = 0;
  params.scales.assign(8, 0.01f);
  params.zero_points.assign(8, 0);
  Tensor w = Tensor::Allocate(TensorType(DType::kInt8, Shape{8, 8, 3, 3}, params));
  for (int64_t i = 0; i < w.elements(); ++i)
    w.mutable_data<int8_t>()[i] = static_cast<int8_t>(i * 37 % 201 - 100);
  const ValueId weights = g.Apply("DequantizeLinear", "wdq", {g.AddConstant("w", w)}, {},
                                  TensorType(DType::kFloat32, w.shape()));
  Attrs pads;
  pads.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  ValueId y = g.Apply("Conv", "conv", {pair(x, 0.02f, 128), weights}, pads);
  EXPECT_TRUE(InferTypes(g));
  y = g.Apply("Relu", "relu", {pair(y, 0.08f, 128)});
  EXPECT_TRUE(InferTypes(g));
  g.MarkOutput(pair(y, 0.05f, 0));
  const std::string model = Export(std::move(g), "apart.onnx");
  const std::vector<std::string> fix = {"explain", model, "--target",      "ort-cpu",
                                        "--fix",   "-o",  At("fixed.onnx")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fix.begin(), fix.end());
    return more;
  };
  const Ran asked = CliRunner::Run(fix);
  ASSERT_EQ(asked.code, 0) << asked.log;
  ASSERT_EQ(asked.json["repairs"].size(), 1) << asked.json["repairs"];
  const json& left = asked.json["repairs"][0];
  EXPECT_EQ(left["code"], "activation-apart");
  EXPECT_EQ(left["made"], false);
  EXPECT_EQ(left["places"], 1);
  EXPECT_EQ(left["change"]["exact"], false);
  EXPECT_GT(left["change"]["max_difference"], 0.01);
  EXPECT_LT(left["change"]["snr_db"], 60);
  EXPECT_EQ(asked.json["compared_on"], "8 random samples");
  EXPECT_EQ(asked.json["output_changes"][0]["max_difference"], 0);
  EXPECT_TRUE(asked.json["output_changes"][0]["snr_db"].is_null());
  EXPECT_NE(asked.out.find("--accept-changes"), std::string::npos) << asked.out;
  EXPECT_EQ(Json({"explain", At("fixed.onnx"), "--target", "ort-cpu"})["findings"].size(), 1);
  const json accepted = Json(with({"--accept-changes"}));
  EXPECT_EQ(accepted["repairs"][0]["made"], true);
  EXPECT_EQ(accepted["repairs"][0]["change"], left["change"]);
  EXPECT_EQ(accepted["output_changes"][0]["snr_db"], left["change"]["snr_db"]);
  EXPECT_EQ(Json({"explain", At("fixed.onnx"), "--target", "ort-cpu"})["findings"].size(), 0);
  const std::string data = Npy(
      "x.npy", Numbers({3, 8, 6, 6}, [](int64_t i) { return std::sin(static_cast<float>(i)); }));
  EXPECT_EQ(Json(with({"--data", data}))["compared_on"], "3 of the data's 3 samples");
  EXPECT_EQ(
      CliRunner::Run({"explain", model, "--target", "ort-cpu", "--accept-changes"}, false).code, 2);
  EXPECT_EQ(CliRunner::Run({"explain", model, "--accept-changes"}, false).code, 2);
  const std::vector<std::string> unread = {"explain", model, "--preprocess", At("p.json")};
  EXPECT_EQ(CliRunner::Run(unread, false).code, 2) << "nothing would read it";
  EXPECT_EQ(CliRunner::Run(with({"--data", At("none")}), false).code, 3);
}

}  // namespace
}  // namespace evoq
