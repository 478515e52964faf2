// What `EtmSections` and `DumpEtm` say of a file whose every byte is accounted for by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "kernels/layout.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_size.h"

namespace evoq {
namespace {

class SectionsTest : public ::testing::Test {
 protected:
  ~SectionsTest() override { std::filesystem::remove(path_); }

  // name, category and bytes of each section, in the file's order.
  std::vector<std::string> SectionsOf(const Model& model) {
    EXPECT_TRUE(WriteEtm(model, path_));
    const auto sections = EtmSections(path_);
    EXPECT_TRUE(sections) << sections.error().message();
    std::vector<std::string> lines;
    int64_t at = 0;
    for (const EtmSection& s : *sections) {
      EXPECT_EQ(s.offset, at) << s.name;
      at += s.bytes;
      lines.push_back(fmt::format("{}: {}, {}", s.name, s.category, s.bytes));
    }
    EXPECT_EQ(at, static_cast<int64_t>(std::filesystem::file_size(path_)));
    return lines;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_sections_{}.etm", ::getpid()))
          .string();
};

Tensor Ramp(int64_t count, float from) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return Tensor::FromValues<float>(Shape{count}, values);
}

// A constant that is an output is read.
void Keep(Graph& graph, const std::string& name, Tensor tensor) {
  graph.MarkOutput(graph.AddConstant(name, std::move(tensor)));
}

std::vector<std::string> OfWeights(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("weights"); });
  return lines;
}

// Long constants begin at multiples of 64, those below 64 bytes of 8; the gaps are `alignment`.
TEST_F(SectionsTest, EachConstantByItsUse) {
  Graph g;
  Keep(g, "a", Ramp(20001, 0));  // 0 to 80004
  const QuantParams q{{1, 2, 3, 4}, {0, 1, 2, 3}, 0, 0};
  Keep(g, "b", Tensor::Allocate(TensorType(DType::kInt8, Shape{4, 5}, q)));  // scales at 80008
  Keep(g, "c", Tensor::FromValues<int32_t>(Shape{3}, {1, 2, 3}));            // at 80048
  Keep(g, "d", Tensor::FromValues<int64_t>(Shape{2}, {4, 5}));               // at 80064
  Keep(g, "again", Ramp(20001, 0));                                          // at 80128, to 160132
  Keep(g, "short", Ramp(15, 0));      // 60 bytes at 160136, to 160196
  Keep(g, "short_too", Ramp(15, 0));  // 160200 to 160260: so short that they may be equal
  Keep(g, "long", Ramp(16, 0));       // 160320 to 160384
  Keep(g, "long_too", Ramp(16, 0));   // 160384 to 160448
  Keep(g, "other", Ramp(16, 1));      // 160448 to 160512
  Keep(g, "flags", Tensor::FromValues<bool>(Shape{3}, {true, false, true}));  // at 160512
  Keep(g, "half", Tensor::Allocate(TensorType(DType::kFloat16, Shape{2})));   // at 160520
  Keep(g, "words", Tensor::FromValues<std::string>(Shape{1}, {"none of it is here"}));
  Attrs attrs;
  attrs.Set("value", Ramp(2, 7));  // at 160528
  attrs.Set("axis", int64_t{0});
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
  g.MarkOutput(g.Apply("Neg", "n", {x}, attrs));
  Graph body;
  body.name = "then";
  body.MarkOutput(body.AddConstant("inner", Ramp(3, 9)));  // at 160536, to 160548
  Node node{.op = "If", .name = "if"};
  node.inputs = {g.AddInput("condition", TensorType(DType::kBool, Shape{}))};
  node.outputs = {g.AddValue("z")};
  node.bodies = {std::make_shared<const Graph>(std::move(body))};
  g.AddNode(node);
  g.MarkOutput(node.outputs[0]);
  Model model;
  model.graph = std::move(g);
  std::vector<std::string> lines = SectionsOf(model);
  EXPECT_EQ(lines[0], "header: header and directory, 32");
  EXPECT_EQ(lines[1], "directory: header and directory, 144") << "three blobs of 48 bytes";
  const auto first = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("weights"); });
  EXPECT_TRUE((first - 1)->starts_with("padding: alignment, ")) << *(first - 1);
  EXPECT_EQ(OfWeights(lines), (std::vector<std::string>{"weights/a: float32 weights, 80004",
                                                        "weights: alignment, 4",
                                                        "weights/b: scales, 16",
                                                        "weights/b: int8 weights, 20",
                                                        "weights: alignment, 4",
                                                        "weights/c: int32 bias, 12",
                                                        "weights: alignment, 4",
                                                        "weights/d: shape constants, 16",
                                                        "weights: alignment, 48",
                                                        "weights/again: duplicates, 80004",
                                                        "weights: alignment, 4",
                                                        "weights/short: float32 weights, 60",
                                                        "weights: alignment, 4",
                                                        "weights/short_too: float32 weights, 60",
                                                        "weights: alignment, 60",
                                                        "weights/long: float32 weights, 64",
                                                        "weights/long_too: duplicates, 64",
                                                        "weights/other: float32 weights, 64",
                                                        "weights/flags: shape constants, 3",
                                                        "weights: alignment, 5",
                                                        "weights/half: float16 weights, 4",
                                                        "weights: alignment, 4",
                                                        "weights/n.value: attributes, 8",
                                                        "weights/inner: float32 weights, 12"}));
}

// 64 x 40 floats fill three panels of 16 columns, of which eight hold nothing; what they hold is
// what a plain constant holds.
TEST_F(SectionsTest, PackedConstants) {
  const LayoutDef* layout = FindLayout("k1n16-matmul-f32");
  ASSERT_NE(layout, nullptr);
  std::vector<float> values(64 * 40);
  std::iota(values.begin(), values.end(), 1.0f);
  const Tensor plain = Tensor::FromValues<float>(Shape{64, 40}, values);
  for (const bool packed_first : {true, false}) {
    Graph g;
    g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
    Keep(g, "pad", Ramp(16000, 0));
    Keep(g, packed_first ? "packed" : "plain", packed_first ? layout->pack(plain).value() : plain);
    Keep(g, packed_first ? "plain" : "packed", packed_first ? plain : layout->pack(plain).value());
    Model model;
    model.graph = std::move(g);
    const std::vector<std::string> lines = SectionsOf(model);
    EXPECT_EQ(
        OfWeights(lines),
        packed_first
            ? (std::vector<std::string>{
                  "weights/pad: float32 weights, 64000", "weights/packed: float32 weights, 10240",
                  "weights/packed: packing padding, 2048", "weights/plain: duplicates, 10240"})
            : (std::vector<std::string>{
                  "weights/pad: float32 weights, 64000", "weights/plain: float32 weights, 10240",
                  "weights/packed: duplicates, 10240", "weights/packed: duplicates, 2048"}));
  }
}

// What heads of streams hold beside the lines: float16 scales and zero points, a byte each, of 40
// columns; steps and their multiples, two bytes each for 128 k. The rest of 64 columns is padding.
TEST_F(SectionsTest, ScalesInsideOfConstants) {
  QuantParams q{std::vector<float>(10 * 40, 0.375f), std::vector<int32_t>(10 * 40, 0), 0, 32};
  const auto lines = [&](const char* layout) {
    const Tensor plain = Tensor::Allocate(TensorType(DType::kInt4, Shape{300, 40}, q));
    Graph g;
    g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
    Keep(g, "pad", Ramp(16000, 0));
    Keep(g, "w", FindLayout(layout)->pack(plain).value());
    Model model;
    model.graph = std::move(g);
    std::vector<std::string> all = OfWeights(SectionsOf(model));
    return std::vector(all.begin() + 1, all.end());
  };
  const auto padding = [](int64_t head) {
    return fmt::format("weights/w: packing padding, {}", 2 * (head + 38 * 128) - 300 * 40 / 2);
  };
  EXPECT_EQ(lines("stream-matmul-w4"),
            (std::vector<std::string>{"weights/w: int4 weights, 6000", "weights/w: scales, 800",
                                      padding(640 - 400)}));
  EXPECT_EQ(lines("stream-matmul-w4-steps"),
            (std::vector<std::string>{"weights/w: int4 weights, 6000", "weights/w: scales, 480",
                                      padding(384 - 240)}));
  q.zero_points[5] = 1;
  EXPECT_EQ(lines("stream-matmul-w4"),
            (std::vector<std::string>{"weights/w: int4 weights, 6000", "weights/w: scales, 800",
                                      "weights/w: zero points, 400", padding(1280 - 600)}));
}

// Texts take 4 bytes for their length, their characters, a 0 and what fills up to 4 bytes, each
// once; zero points that differ a length and 4 bytes each. The blob is compressed, and its parts
// with it.
TEST_F(SectionsTest, PartsOfTheGraph) {
  Graph g;
  g.name = "sample";
  g.metadata["producer"] = "a test of sections";
  const QuantParams q{{1, 2, 3}, {0, 1, 2}, 0, 0};
  Keep(g, "w", Tensor::Allocate(TensorType(DType::kInt8, Shape{3, 2}, q)));
  Keep(g, "words", Tensor::FromValues<std::string>(Shape{3}, {"one", "three", "one"}));
  Attrs attrs;
  attrs.Set("mode", "reflect");
  attrs.Set("names", std::vector<std::string>{"first", "w"});
  attrs.Set("text", Tensor::FromValues<std::string>(Shape{1}, {"of an attribute"}));
  attrs.Set("table", Tensor::Allocate(TensorType(DType::kInt8, Shape{3, 2}, q)));
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1}));
  g.MarkOutput(g.Apply("Neg", "n", {x}, attrs));
  Graph body;
  body.name = "then";
  body.MarkOutput(body.AddConstant("inner", Ramp(3, 9)));
  Node node{.op = "If", .domain = "some.domain", .name = "if"};
  node.inputs = {g.AddInput("condition", TensorType(DType::kBool, Shape{}))};
  node.outputs = {g.AddValue("z")};
  node.bodies = {std::make_shared<const Graph>(std::move(body))};
  g.AddNode(node);
  g.MarkOutput(node.outputs[0]);
  Model model;
  model.certificate = "{}";
  const std::string neg = g.value(g.node(g.FindNode("n")).outputs[0]).name;
  model.graph = std::move(g);
  const std::vector<std::string> lines = SectionsOf(model);
  int64_t strings = 0;
  for (const std::string& text : std::set<std::string>{"sample",
                                                       "producer",
                                                       "a test of sections",
                                                       "w",
                                                       "words",
                                                       "one",
                                                       "three",
                                                       "mode",
                                                       "reflect",
                                                       "names",
                                                       "first",
                                                       "text",
                                                       "of an attribute",
                                                       "table",
                                                       "x",
                                                       "Neg",
                                                       "n",
                                                       neg,
                                                       "then",
                                                       "inner",
                                                       "If",
                                                       "some.domain",
                                                       "if",
                                                       "condition",
                                                       "z"})
    strings += 4 + (static_cast<int64_t>(text.size()) / 4 + 1) * 4;
  const int64_t zeros = 2 * (4 + 3 * 4);
  const auto container = Container::Open(path_);
  ASSERT_TRUE(container);
  const BlobInfo& graph = *container->Find("graph");
  ASSERT_EQ(graph.codec, Codec::kZstd);
  const int64_t a = strings * graph.stored_bytes / graph.raw_bytes,
                b = (strings + zeros) * graph.stored_bytes / graph.raw_bytes;
  const auto at = std::find(lines.begin(), lines.end(), fmt::format("graph: strings, {}", a));
  ASSERT_LT(at, lines.end() - 2) << fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_EQ(at[1], fmt::format("graph: zero points, {}", b - a));
  EXPECT_EQ(at[2], fmt::format("graph: graph, {}", graph.stored_bytes - b));
  const auto has = [&](const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  EXPECT_TRUE(has("header: header and directory, 32"));
  EXPECT_TRUE(has("directory: header and directory, 192"));
  for (const char* name : {"plans", "certificate"})
    EXPECT_TRUE(has(fmt::format("{0}: {0}, {1}", name, container->Find(name)->stored_bytes)));
}

// From 64 KiB of constants on a file is mapped: its weights begin a page and are not compressed.
TEST_F(SectionsTest, SmallFilesAreCompressed) {
  for (const int64_t bytes : {65535, 65536}) {
    Model model;
    Keep(model.graph, "zeros", Tensor::Allocate(TensorType(DType::kUint8, Shape{bytes})));
    ASSERT_TRUE(WriteEtm(model, path_));
    EXPECT_EQ(EtmBytes(model), static_cast<int64_t>(std::filesystem::file_size(path_)));
    const auto container = Container::Open(path_);
    ASSERT_TRUE(container);
    const BlobInfo& weights = *container->Find("weights");
    EXPECT_EQ(weights.codec == Codec::kZstd, bytes == 65535);
    EXPECT_EQ(weights.raw_bytes, bytes);
    if (bytes == 65536) EXPECT_EQ(weights.offset, 4096);
    EXPECT_TRUE(weights.required);
    EXPECT_FALSE(container->Find("plans")->required);
  }
}

Model Planned() {
  Model model;
  model.graph.name = "small";
  model.graph.metadata["producer"] = "test";
  const ValueId x = model.graph.AddInput("x", TensorType(DType::kFloat32, Shape{1, 2}));
  model.graph.MarkOutput(model.graph.Apply("Neg", "n", {x}));
  model.certificate = R"({"speed": 2})";
  Plan plan;
  plan.shapes = {{"x", {1, 2}}, {"y", {3}}};
  plan.decisions["n"] = {
      .kernel = "neg",
      .precision = Precision::kAny,
      .rejected = {{"fast", {"shape", "too long"}}, {"big", {"type", "int4"}}},
      .float_reason = {"no-range", "nothing says its range"},
  };
  plan.decisions["other"] = {.kernel = "reference", .precision = Precision::kFloat32};
  plan.tunings.push_back({"some CPU", 2, {{"n", {"7x64", 1, {{"14x32", {"slower", "2 us"}}}}}}});
  plan.tunings.push_back({"another CPU", 8, {{"n", {"", 0, {}}}}});
  Plan second;
  second.shapes["x"] = {4, 2};
  model.plans = {plan, second};
  return model;
}

TEST_F(SectionsTest, PlansComeBackWhole) {
  const Model model = Planned();
  ASSERT_TRUE(WriteEtm(model, path_));
  const auto back = ReadEtm(path_);
  ASSERT_TRUE(back) << back.error().message();
  ASSERT_EQ(back->plans.size(), 2u);
  EXPECT_EQ(back->plans[1].shapes, model.plans[1].shapes);
  EXPECT_TRUE(back->plans[1].decisions.empty());
  EXPECT_TRUE(back->plans[1].tunings.empty());
  const auto text = [](const std::vector<Decision::Rejected>& rejected) {
    std::string all;
    for (const auto& r : rejected)
      all += fmt::format("{}|{}|{};", r.kernel, r.reason.code, r.reason.sentence);
    return all;
  };
  const Plan& plan = back->plans[0];
  EXPECT_EQ(plan.shapes, model.plans[0].shapes);
  ASSERT_EQ(plan.decisions.size(), 2u);
  const Decision& n = plan.decisions.at("n");
  EXPECT_EQ(n.kernel, "neg");
  EXPECT_EQ(n.precision, Precision::kAny);
  EXPECT_EQ(text(n.rejected), "fast|shape|too long;big|type|int4;");
  EXPECT_EQ(n.float_reason.code, "no-range");
  EXPECT_EQ(n.float_reason.sentence, "nothing says its range");
  EXPECT_EQ(plan.decisions.at("other").precision, Precision::kFloat32);
  EXPECT_TRUE(plan.decisions.at("other").float_reason.empty());
  ASSERT_EQ(plan.tunings.size(), 2u);
  EXPECT_EQ(plan.tunings[0].machine, "some CPU");
  EXPECT_EQ(plan.tunings[0].threads, 2);
  EXPECT_EQ(plan.tunings[0].steps.at("n").variant, "7x64");
  EXPECT_EQ(plan.tunings[0].steps.at("n").threads, 1);
  EXPECT_EQ(text(plan.tunings[0].steps.at("n").slower), "14x32|slower|2 us;");
  EXPECT_EQ(plan.tunings[1].machine, "another CPU");
  EXPECT_EQ(plan.tunings[1].threads, 8);
  EXPECT_EQ(plan.tunings[1].steps.at("n").variant, "");
  EXPECT_EQ(plan.tunings[1].steps.at("n").threads, 0);
}

TEST_F(SectionsTest, TheDump) {
  const Model model = Planned();
  ASSERT_TRUE(WriteEtm(model, path_));
  const auto dump = DumpEtm(path_);
  ASSERT_TRUE(dump) << dump.error().message();
  const auto container = Container::Open(path_);
  ASSERT_TRUE(container);
  std::string wanted = fmt::format("etm version 1, {} bytes\n", std::filesystem::file_size(path_));
  ASSERT_EQ(container->blobs().size(), 4u);
  for (const BlobInfo& b : container->blobs())
    wanted += fmt::format(
        "blob {} at {}: {} bytes{}, crc32c {:08x}\n", b.name, b.offset, b.stored_bytes,
        b.codec == Codec::kRaw ? "" : fmt::format(" (zstd, {} decoded)", b.raw_bytes), b.crc);
  wanted += "meta producer = test\ncertificate {\"speed\": 2}\n" + Print(model.graph);
  wanted +=
      "plan for x [1, 2], y [3]\n"
      "  n: neg\n"
      "    not fast (shape): too long\n"
      "    not big (type): int4\n"
      "    float (no-range): nothing says its range\n"
      "  other: reference\n"
      "  tuned on some CPU, 2 threads\n"
      "    n: 7x64, 1 threads\n"
      "      not 14x32 (slower): 2 us\n"
      "  tuned on another CPU, 8 threads\n"
      "    n: default, 0 threads\n"
      "plan for x [4, 2]\n";
  EXPECT_EQ(*dump, wanted);
}

}  // namespace
}  // namespace evoq
