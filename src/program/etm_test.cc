#include "program/etm.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/crc32c.h"
#include "base/file.h"
#include "kernels/layout.h"
#include "program/container.h"
#include "program/etm_size.h"
#include "program/etm_tables.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

class EtmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("evoq_etm_{}", ::getpid());
    std::filesystem::create_directories(dir_);
    path_ = (dir_ / "m.etm").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static Model Sample(int64_t channels) {
    Graph g;
    g.name = "sample";
    g.metadata["producer"] = "test";
    const ValueId x = g.AddInput(
        "x", TensorType(DType::kUint8, Shape(std::vector<Dim>{Dim::Symbolic("N"), 3, 8, 8}),
                        QuantParams::PerTensor(0.5f, 3)));
    QuantParams q{std::vector<float>(channels, 0.25f), std::vector<int32_t>(channels, 0), 0, 0};
    q.scales[1] = 0.125f;
    Tensor w = Tensor::Allocate(TensorType(DType::kInt8, Shape{channels, 3, 3, 3}, q));
    for (int64_t i = 0; i < w.elements(); ++i)
      w.mutable_data<int8_t>()[i] = static_cast<int8_t>(i * 37);
    const ValueId wid = g.AddConstant("w", w);
    const ValueId b = g.AddConstant(
        "b", Tensor::FromValues<int32_t>(Shape{channels}, std::vector<int32_t>(channels, -5)));
    Attrs attrs;
    attrs.Set("strides", std::vector<int64_t>{1, 1});
    attrs.Set("activation", "Clip");
    attrs.Set("activation_beta", 6.0f);
    attrs.Set("table", Tensor::FromValues<float>(Shape{2}, {1, 2}));
    const ValueId y =
        g.Apply("Conv", "conv", {x, wid, ValueId{}, b}, attrs,
                TensorType(DType::kUint8, Shape::UnknownRank(), QuantParams::PerTensor(0.1f, 0)));
    g.MarkOutput(y);
    Model model;
    model.graph = std::move(g);
    Plan plan;
    plan.shapes["x"] = {1, 3, 8, 8};
    plan.decisions["conv"] = {
        .kernel = "conv_int8",
        .precision = Precision::kInt8,
        .rejected = {{"dwconv_int8", {"shape", "group is 1"}}},
    };
    plan.tunings.push_back(
        {"some CPU",
         2,
         {{"conv", {"7x64", 1, {{"conv_int8 14x32", {"slower-when-measured", "2 us"}}}}}}});
    model.plans.push_back(plan);
    return model;
  }

  std::string Bytes() { return ReadTextFile(path_).value(); }
  void Put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  std::filesystem::path dir_;
  std::string path_;
};

TEST_F(EtmTest, RoundTrip) {
  for (int64_t channels : {4, 4000}) {  // compressed, and mapped
    Model model = Sample(channels);
    model.certificate = R"({"speed": 2})";
    ASSERT_TRUE(WriteEtm(model, path_));
    const auto back = ReadEtm(path_);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(Print(back->graph), Print(model.graph));
    EXPECT_TRUE(BitEqual(back->graph.value(back->graph.FindValue("w")).constant,
                         model.graph.value(model.graph.FindValue("w")).constant));
    EXPECT_EQ(back->graph.metadata, model.graph.metadata);
    EXPECT_EQ(back->certificate, model.certificate);
    ASSERT_EQ(back->plans.size(), 1u);
    EXPECT_EQ(back->plans[0].shapes, model.plans[0].shapes);
    EXPECT_EQ(back->plans[0].decisions.at("conv").rejected[0].reason.sentence, "group is 1");
    ASSERT_EQ(back->plans[0].tunings.size(), 1u);
    const Tuning& tuning = back->plans[0].tunings[0];
    EXPECT_EQ(tuning.machine, "some CPU");
    EXPECT_EQ(tuning.threads, 2);
    EXPECT_EQ(tuning.steps.at("conv").variant, "7x64");
    EXPECT_EQ(tuning.steps.at("conv").threads, 1);
    EXPECT_EQ(tuning.steps.at("conv").slower[0].reason.sentence, "2 us");
  }
}

// Weights of an integer layer that few bits hold take so many, and come back as int8; those that do
// not fit, or of another layer, take bytes.
TEST_F(EtmTest, WeightsOfFewBits) {
  constexpr int64_t kChannels = 4000;  // mapped, not compressed
  const auto with = [&](int bits, int factor, int step) {
    Model model = Sample(kChannels);
    const NodeId conv = model.graph.FindNode("conv");
    const ValueId w = model.graph.node(conv).inputs[1];
    Tensor numbers = Tensor::Allocate(model.graph.value(w).type);
    for (int64_t i = 0; i < numbers.elements(); ++i)
      numbers.mutable_data<int8_t>()[i] =
          static_cast<int8_t>((i % (1 << bits) - (1 << (bits - 1))) * factor + i % step);
    model.graph.SetConstant(w, std::move(numbers));
    model.graph.attrs(conv).Set("evoq.weight_bits", bits);
    return model;
  };
  const int64_t count = kChannels * 3 * 3 * 3;
  int64_t bytes = 0;
  for (const auto& [bits, factor, step] :
       {std::tuple(4, 16, 2), {4, 16, 1}, {4, 1, 1}, {2, 64, 1}, {2, 1, 1}}) {
    Model model = with(bits, factor, step);
    ASSERT_TRUE(WriteEtm(model, path_));
    const auto back = ReadEtm(path_);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(BitEqual(back->graph.value(back->graph.FindValue("w")).constant,
                         model.graph.value(model.graph.FindValue("w")).constant));
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path_));
    if (step > 1) {
      bytes = size;
    } else {
      EXPECT_NEAR(bytes - size, count - count * bits / 8, 256) << bits << " bits";
    }
  }
}

// Scales of blocks take one byte each where they are powers of two, two where they are float16
// numbers; zero points that differ take their type's bits. All come back as they were.
TEST_F(EtmTest, ScalesAndZeroPointsOfBlocks) {
  struct Case {
    float scale;
    DType dtype;
    int32_t low, high;  // zero points
    int64_t scales, zeros;
  };
  const Case cases[] = {{0.25f, DType::kInt4, 0, 0, 40000, 0},
                        {0x1p-60f, DType::kFloat4E2M1, 0, 0, 40000, 0},
                        {0.375f, kNormalFloat4, 0, 0, 80000, 0},
                        {0.375f, DType::kUint2, 1, 2, 80000, 10000},
                        {0.375f, DType::kInt2, -2, 1, 80000, 10000},
                        {0.375f, DType::kInt4, -8, 7, 80000, 20000},
                        {0.1f, DType::kUint4, 0, 15, 160000, 20000},
                        {0.1f, DType::kUint8, 0, 255, 160000, 40000},
                        {0x1p-130f, DType::kInt8, -128, 127, 160000, 40000}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", DTypeName(c.dtype), c.scale));
    Graph g;
    QuantParams q{std::vector<float>(40000, c.scale), std::vector<int32_t>(40000, c.low), 0, 16};
    for (size_t i = 0; i < q.zero_points.size(); i += 3) q.zero_points[i] = c.high;
    q.zero_points.back() = c.high;
    g.MarkOutput(g.AddConstant("w", Tensor::Allocate(TensorType(c.dtype, Shape{1600, 400}, q))));
    Model model;
    model.graph = std::move(g);
    ASSERT_TRUE(WriteEtm(model, path_));
    EXPECT_EQ(static_cast<uint64_t>(EtmBytes(model)), std::filesystem::file_size(path_));
    const auto back = ReadEtm(path_);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back->graph.value(back->graph.FindValue("w")).type.quant, q);
    int64_t scales = 0, zeros = 0;
    const auto sections = EtmSections(path_);
    ASSERT_TRUE(sections) << sections.error().message();
    for (const EtmSection& s : *sections) {
      scales += s.category == "scales" ? s.bytes : 0;
      zeros += s.category == "zero points" ? s.bytes : 0;
    }
    EXPECT_EQ(scales, c.scales);
    EXPECT_EQ(zeros, c.zeros);
  }
}

TEST_F(EtmTest, SectionsCoverTheFile) {
  for (int64_t channels : {4, 4000}) {
    ASSERT_TRUE(WriteEtm(Sample(channels), path_));
    EXPECT_EQ(static_cast<uint64_t>(EtmBytes(Sample(channels))), std::filesystem::file_size(path_));
    const auto sections = EtmSections(path_);
    ASSERT_TRUE(sections) << sections.error().message();
    int64_t at = 0, weights = 0;
    for (const EtmSection& s : *sections) {
      EXPECT_EQ(s.offset, at) << s.name;
      at += s.bytes;
      if (s.category == "int8 weights") weights += s.bytes;
    }
    EXPECT_EQ(at, static_cast<int64_t>(std::filesystem::file_size(path_)));
    if (channels == 4000) EXPECT_EQ(weights, 4000 * 27);
  }
}

// A constant that nothing reads, a node that nothing reads, and constants that only it reads stay
// out, in subgraphs too: the file is, byte for byte, that of the model without them.
TEST_F(EtmTest, WhatNothingReadsIsNotWritten) {
  const auto model = [](bool dead) {
    const auto add_dead = [&](Graph& g) {
      if (!dead) return;
      const Tensor big = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1000}));
      g.AddConstant("unread", big);
      g.Apply("Neg", "unread_node", {g.AddConstant("read_by_the_dead", big)});
    };
    Graph body;
    body.MarkOutput(body.Apply("Neg", "negated", {body.AddInput("x", {})}));
    add_dead(body);
    Model m = Sample(4);
    Node node{.op = "If", .name = "if"};
    node.inputs = {m.graph.AddInput("condition", TensorType(DType::kBool, Shape{})),
                   m.graph.inputs()[0]};
    node.outputs = {m.graph.AddValue("z")};
    node.bodies = {std::make_shared<const Graph>(body), std::make_shared<const Graph>(body)};
    m.graph.AddNode(node);
    m.graph.MarkOutput(node.outputs[0]);
    add_dead(m.graph);
    return m;
  };
  ASSERT_TRUE(WriteEtm(model(false), path_));
  const std::string without = Bytes();
  ASSERT_TRUE(WriteEtm(model(true), path_));
  EXPECT_EQ(Bytes(), without);
  EXPECT_EQ(EtmBytes(model(true)), static_cast<int64_t>(without.size()));
}

TEST_F(EtmTest, EveryFlippedByteIsFound) {
  ASSERT_TRUE(WriteEtm(Sample(4), path_));
  const std::string good = Bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    Put(bad);
    const auto model = ReadEtm(path_);
    // Alignment between blobs carries no information.
    if (model) {
      EXPECT_EQ(good[i], '\0') << i;
    } else {
      EXPECT_NE(model.error().message().find(path_), std::string::npos);
    }
  }
}

TEST_F(EtmTest, EveryTruncationIsFound) {
  ASSERT_TRUE(WriteEtm(Sample(4), path_));
  const std::string good = Bytes();
  for (size_t n = 0; n < good.size(); ++n) {
    Put(good.substr(0, n));
    EXPECT_FALSE(ReadEtm(path_)) << n;
  }
}

TEST_F(EtmTest, BoolBytesAreZeroOrOne) {
  for (int byte : {1, 5}) {
    Model model = Sample(4);
    Tensor flags = Tensor::Allocate(TensorType(DType::kBool, Shape{3}));
    flags.mutable_raw()[2] = static_cast<std::byte>(byte);
    model.graph.MarkOutput(model.graph.AddConstant("flags", flags));
    ASSERT_TRUE(WriteEtm(model, path_));
    EXPECT_EQ(ReadEtm(path_).has_value(), byte == 1);
  }
}

// Strings are elements of a constant and of an attribute; a file's number of them must fit the
// shape.
TEST_F(EtmTest, Strings) {
  const Tensor words =
      Tensor::FromValues<std::string>(Shape{2, 2}, {"a", "", std::string("nul\0l", 5), "Zürich"});
  Model model;
  const ValueId x = model.graph.AddConstant("x", words);
  Attrs attrs;
  attrs.Set("value", Tensor::Scalar<std::string>("one"));
  model.graph.MarkOutput(model.graph.Apply("Identity", "copy", {x}, attrs, words.type()));
  ASSERT_TRUE(WriteEtm(model, path_));
  const auto back = ReadEtm(path_);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(BitEqual(back->graph.value(back->graph.FindValue("x")).constant, words));
  const auto& value = back->graph.node(back->graph.FindNode("copy")).attrs.begin()->second;
  EXPECT_EQ(std::get<Tensor>(value).values<std::string>()[0], "one");

  fb::GraphT graph;
  graph.outputs = {0};
  graph.values.push_back(std::make_unique<fb::ValueT>());
  fb::ValueT& value_of_two = *graph.values[0];
  value_of_two.name = "x";
  value_of_two.type = std::make_unique<fb::TypeT>();
  value_of_two.type->dtype = static_cast<int8_t>(DType::kString);
  value_of_two.type->dims = {3};
  value_of_two.constant = std::make_unique<fb::ConstantT>();
  value_of_two.constant->strings = {"a", "b"};
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Graph::Pack(builder, &graph));
  const BlobSource blobs[] = {
      {.name = "graph",
       .pieces = {std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))}},
      {.name = "weights", .pieces = {}}};
  ASSERT_TRUE(WriteContainer(path_, blobs));
  const auto refused = ReadEtm(path_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("value x: 2 strings for string[3]"), std::string::npos)
      << refused.error().message();
}

// The file holds names; one of another version of evoq, or none at all, refuses no file.
TEST_F(EtmTest, PrecisionsAreNames) {
  fb::GraphT graph;
  fb::PlansT plans;
  plans.plans.push_back(std::make_unique<fb::PlanT>());
  for (const char* name : {"any", "float32", "bf16", "int8", "int2", ""}) {
    auto& decisions = plans.plans[0]->decisions;
    decisions.push_back(std::make_unique<fb::DecisionT>());
    decisions.back()->node = decisions.back()->precision = name;
  }
  flatbuffers::FlatBufferBuilder graph_bytes, plan_bytes;
  graph_bytes.Finish(fb::Graph::Pack(graph_bytes, &graph));
  plan_bytes.Finish(fb::Plans::Pack(plan_bytes, &plans));
  const auto piece = [](const flatbuffers::FlatBufferBuilder& builder) {
    return std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  };
  const BlobSource blobs[] = {{.name = "graph", .pieces = {piece(graph_bytes)}},
                              {.name = "plans", .pieces = {piece(plan_bytes)}},
                              {.name = "weights", .pieces = {}}};
  ASSERT_TRUE(WriteContainer(path_, blobs));
  const auto model = ReadEtm(path_);
  ASSERT_TRUE(model) << model.error().message();
  const auto& read = model->plans.at(0).decisions;
  for (Precision precision : kPrecisions)
    EXPECT_EQ(read.at(PrecisionName(precision)).precision, precision) << PrecisionName(precision);
  EXPECT_EQ(read.at("int2").precision, Precision::kAny);
  EXPECT_EQ(read.at("").precision, Precision::kAny);

  ASSERT_TRUE(WriteEtm(*model, path_));
  const auto container = Container::Open(path_);
  ASSERT_TRUE(container);
  Budget budget = Budget::ForFile(container->file_bytes());
  const auto written = container->Read(*container->Find("plans"), budget);
  ASSERT_TRUE(written);
  std::set<std::string> names;
  for (const auto* d :
       *flatbuffers::GetRoot<fb::Plans>(written->data.data())->plans()->Get(0)->decisions())
    names.insert(EtmText(d->precision()));
  EXPECT_EQ(names, (std::set<std::string>{"any", "float32", "bf16", "int8"}));
}

// A constant whose layout holds its scales is read where it lies, and as it was; one whose type
// says so and whose layout does not, or whose bytes are no scales, is an error.
TEST_F(EtmTest, ScalesInsideOfConstants) {
  const auto plain = [](DType dtype, bool zeros) {
    QuantParams q{std::vector<float>(4 * 640, 0.375f), std::vector<int32_t>(4 * 640, 1), 0, 32};
    if (zeros) q.zero_points[5] = 0;
    Tensor w = Tensor::Allocate(TensorType(dtype, Shape{128, 640}, q));
    for (size_t i = 0; i < w.bytes(); ++i) w.mutable_raw()[i] = static_cast<std::byte>(i * 37);
    return w;
  };
  const auto model_of = [](Tensor w) {
    Model model;
    model.graph.MarkOutput(model.graph.AddConstant("w", std::move(w)));
    return model;
  };
  struct Case {
    const char* layout;
    DType dtype;
  };
  for (const Case& c :
       {Case{"stream-matmul-w2", DType::kUint2}, Case{"stream-matmul-w4", DType::kInt4},
        Case{"stream-matmul-w4", DType::kUint4}, Case{"stream-matmul-w8", DType::kInt8}}) {
    for (bool zeros : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", DTypeName(c.dtype), zeros));
      const Tensor w = plain(c.dtype, zeros), packed = FindLayout(c.layout)->pack(w).value();
      ASSERT_TRUE(WriteEtm(model_of(packed), path_));
      const auto back = ReadEtm(path_);
      ASSERT_TRUE(back) << back.error().message();
      const Tensor& read = back->graph.value(back->graph.FindValue("w")).constant;
      EXPECT_TRUE(BitEqual(read, packed));
      EXPECT_TRUE(BitEqual(ToPlain(read).value(), w));
    }
  }
  const auto refusal = [&](const Tensor& w) {
    EXPECT_TRUE(WriteEtm(model_of(w), path_));
    const auto back = ReadEtm(path_);
    return back ? std::string() : back.error().message();
  };
  const Tensor packed = FindLayout("stream-matmul-w4")->pack(plain(DType::kInt4, false)).value();
  const auto with = [&](QuantParams::Inside inside, int64_t block) {
    QuantParams q = *packed.type().quant;
    q.inside = inside;
    q.block = block;
    return Tensor::PackedView(TensorType(DType::kInt4, packed.shape(), q), packed.layout(),
                              {packed.raw(), packed.bytes()}, nullptr);
  };
  const std::string at = path_ + ": value w: ";
  EXPECT_EQ(refusal(with({true, false, 1}, 32)), "");
  EXPECT_EQ(refusal(with({true, false, 8}, 32)), at + "zero point 8 inside of int4");
  EXPECT_EQ(refusal(with({false, false, 1}, 32)),
            at + "46080 bytes for int4[128, 640](2560 scales on axis 0, block 32) in "
                 "stream-matmul-w4, expected 51200");
  EXPECT_NE(refusal(with({true, true, 0}, 32)).find("bytes for int4"), std::string::npos);
  EXPECT_NE(refusal(with({true, false, 1}, 12)).find("blocks of a multiple of 8"),
            std::string::npos);
  // The same bytes under a type without scales of their size.
  QuantParams q = *packed.type().quant;
  EXPECT_NE(refusal(Tensor::PackedView(TensorType(DType::kInt4, Shape{128, 640}, q),
                                       "k8n16-matmul-w4", {packed.raw(), 128 * 640 / 2}, nullptr))
                .find("scales inside of k8n16-matmul-w4, which holds none"),
            std::string::npos);
  std::vector<std::byte> bytes(packed.raw(), packed.raw() + packed.bytes());
  bytes[1] = std::byte{0x80};
  EXPECT_EQ(refusal(Tensor::Packed(packed.type(), packed.layout(), bytes)),
            at + "a scale inside that is no finite number > 0");
}

TEST_F(EtmTest, UnknownBlobs) {
  std::vector<std::byte> bytes(16);
  const std::span<const std::byte> piece(bytes);
  const BlobSource optional[] = {{.name = "graph", .pieces = {piece}},
                                 {.name = "future", .pieces = {piece}, .required = true}};
  ASSERT_TRUE(WriteContainer(path_, optional));
  const auto model = ReadEtm(path_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(model.error().message().find("needs the blob 'future'"), std::string::npos)
      << model.error().message();
}

}  // namespace
}  // namespace evoq
