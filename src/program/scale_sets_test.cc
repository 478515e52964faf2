#include "program/scale_sets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_tables.h"

namespace evoq {
namespace {

// x -> quantize -> conv -> y, as lowered graphs have it. Scales and the bias as given.
Graph Net(float x_scale, float y_scale, int32_t bias, int8_t weight = 3) {
  Graph g;
  const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{1, 2, 4, 4}));
  const auto bytes = [](float scale) {
    return TensorType(DType::kUint8, Shape::UnknownRank(), QuantParams::PerTensor(scale, 7));
  };
  const ValueId q = g.Apply("QuantizeLinear", "q", {x}, {}, bytes(x_scale));
  Tensor w =
      Tensor::Allocate(TensorType(DType::kInt8, Shape{40, 2, 3, 3},
                                  {std::vector<float>(40, 0.5f), std::vector<int32_t>(40), 0, 0}));
  std::fill_n(w.mutable_data<int8_t>(), w.elements(), weight);
  const ValueId b =
      g.AddConstant("b", Tensor::FromValues<int32_t>(Shape{40}, std::vector<int32_t>(40, bias)));
  const ValueId y = g.Apply("Conv", "y", {q, g.AddConstant("w", w), b}, {}, bytes(y_scale));
  const ValueId d = g.Apply("DequantizeLinear", "d", {y});
  g.MarkOutput(d);
  return g;
}

ScaleSet Between(const Graph& a, const Graph& b) {
  auto set = ScaleSetBetween(a, b, "night", 5);
  EXPECT_TRUE(set) << set.error().message();
  return set ? *set : ScaleSet();
}

std::vector<std::string> Values(const ScaleSet& set) {
  std::vector<std::string> names;
  for (const ScaleChange& change : set.changes) names.push_back(change.value);
  std::ranges::sort(names);
  return names;
}

Model TwoSets() {
  Model model;
  model.graph = Net(0.1f, 0.2f, 100);
  model.sets = {{"day", 9, {}}, Between(model.graph, Net(0.025f, 0.05f, 400))};
  return model;
}

class ScaleSets : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_sets_{}.etm", ::getpid()))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(ScaleSets, AreWhatDiffersBetweenGraphs) {
  const Graph day = Net(0.1f, 0.2f, 100);
  EXPECT_EQ(Values(Between(day, Net(0.1f, 0.2f, 100))), std::vector<std::string>());
  EXPECT_EQ(Values(Between(day, Net(0.025f, 0.2f, 100))), std::vector<std::string>{"q"});
  const ScaleSet night = Between(day, Net(0.025f, 0.05f, 400));
  EXPECT_EQ(Values(night), (std::vector<std::string>{"b", "q", "y"}));
  // Weights that differ belong to the set, too.
  EXPECT_EQ(Values(Between(day, Net(0.1f, 0.2f, 100, 4))), std::vector<std::string>{"w"});
  const Graph back = WithScaleSet(day, night);
  EXPECT_EQ(Print(back), Print(Net(0.025f, 0.05f, 400)));
  EXPECT_EQ(back.value(back.FindValue("b")).constant.values<int32_t>()[3], 400);
  // Shared, not copied.
  EXPECT_EQ(back.value(back.FindValue("w")).constant.raw(),
            day.value(day.FindValue("w")).constant.raw());
}

TEST_F(ScaleSets, OtherGraphsAreRefused) {
  const Graph day = Net(0.1f, 0.2f, 100);
  Graph renamed = Net(0.1f, 0.2f, 100);
  renamed.RenameNode(renamed.FindNode("y"), "z");
  EXPECT_EQ(ScaleSetBetween(day, renamed, "night", 1).error().message(),
            "scale set night makes another graph at node y: sets share one graph");
  Graph typed = Net(0.1f, 0.2f, 100);
  typed.SetType(typed.FindValue("q"),
                TensorType(DType::kInt8, Shape::UnknownRank(), QuantParams::PerTensor(0.1f, 7)));
  EXPECT_EQ(ScaleSetBetween(day, typed, "night", 1).error().message(),
            "scale set night makes another graph at value q: sets share one graph");
}

TEST_F(ScaleSets, ComeBackFromTheFile) {
  const Model model = TwoSets();
  ASSERT_TRUE(WriteEtm(model, path_));
  const auto back = ReadEtm(path_);
  ASSERT_TRUE(back) << back.error().message();
  ASSERT_EQ(back->sets.size(), 2u);
  EXPECT_EQ(back->sets[0].name, "day");
  EXPECT_EQ(back->sets[0].samples, 9);
  EXPECT_EQ(back->sets[1].name, "night");
  EXPECT_EQ(back->sets[1].samples, 5);
  EXPECT_EQ(Values(back->sets[1]), Values(model.sets[1]));
  EXPECT_EQ(Print(WithScaleSet(back->graph, back->sets[1])),
            Print(WithScaleSet(model.graph, model.sets[1])));
  const Graph night = WithScaleSet(back->graph, back->sets[1]);
  EXPECT_EQ(night.value(night.FindValue("b")).constant.values<int32_t>()[0], 400);
}

// The graph, weights and plans of a model are the same bytes with sets and without: readers that do
// not know sets read the first one.
TEST_F(ScaleSets, AreABlobThatMayBeIgnored) {
  Model model = TwoSets();
  ASSERT_TRUE(WriteEtm(model, path_));
  {
    const auto container = Container::Open(path_);
    ASSERT_TRUE(container);
    ASSERT_NE(container->Find("scale-sets"), nullptr);
    EXPECT_FALSE(container->Find("scale-sets")->required);
  }
  const uint32_t graph = Container::Open(path_)->Find("graph")->crc;
  model.sets.clear();
  ASSERT_TRUE(WriteEtm(model, path_));
  EXPECT_EQ(Container::Open(path_)->Find("scale-sets"), nullptr);
  EXPECT_EQ(Container::Open(path_)->Find("graph")->crc, graph);
}

TEST_F(ScaleSets, TheirBytesAreAccountedFor) {
  ASSERT_TRUE(WriteEtm(TwoSets(), path_));
  const auto sections = EtmSections(path_);
  ASSERT_TRUE(sections) << sections.error().message();
  int64_t all = 0;
  std::set<std::string> names;
  for (const EtmSection& section : *sections) {
    all += section.bytes;
    if (section.category == "scale sets") names.insert(section.name);
  }
  EXPECT_EQ(all, static_cast<int64_t>(std::filesystem::file_size(path_)));
  EXPECT_EQ(names,
            (std::set<std::string>{"scale-sets/day", "scale-sets/night", "weights/night/b"}));
  const std::string dump = DumpEtm(path_).value();
  EXPECT_NE(dump.find("scale set night, 5 samples\n"), std::string::npos) << dump;
  EXPECT_NE(dump.find("  const %b: int32[40]\n"), std::string::npos) << dump;
  EXPECT_NE(dump.find("  %q: uint8[...](scale 0.025, zero 7)"), std::string::npos) << dump;
}

// What a damaged file may say of sets, each with one sentence. CheckScaleSets judges what ReadEtm
// read, so that these need no files.
TEST_F(ScaleSets, DamagedOnesAreRefused) {
  const Model good = TwoSets();
  const auto why = [&](const std::function<void(std::vector<ScaleSet>&)>& change) {
    std::vector<ScaleSet> sets = good.sets;
    change(sets);
    const Status status = CheckScaleSets(good.graph, sets);
    return status ? std::string("fits") : status.error().message();
  };
  const auto change_of = [](std::vector<ScaleSet>& sets, const char* value) -> ScaleChange& {
    return *std::ranges::find(sets[1].changes, value, &ScaleChange::value);
  };
  EXPECT_EQ(why([](auto&) {}), "fits");
  EXPECT_EQ(why([](auto& s) { s.pop_back(); }), "1 scale sets, expected 2 to 16");
  EXPECT_EQ(why([](auto& s) { s.resize(17); }), "17 scale sets, expected 2 to 16");
  EXPECT_EQ(why([](auto& s) { s[0].changes = s[1].changes; }),
            "scale set day: 3 changes of the first set, expected none");
  EXPECT_EQ(why([](auto& s) { s[1].name = ""; }), "scale set '': expected a name without '/'");
  EXPECT_EQ(why([](auto& s) { s[1].name = "a/b"; }),
            "scale set 'a/b': expected a name without '/'");
  EXPECT_EQ(why([](auto& s) { s[1].name = "day"; }), "scale set day: two sets have this name");
  EXPECT_EQ(why([](auto& s) { s[1].samples = -1; }), "scale set night: -1 samples");
  EXPECT_EQ(
      why([](auto& s) { s[1].changes.push_back(s[1].changes[0]); }),
      fmt::format("scale set night: value {}: it stands twice", good.sets[1].changes[0].value));
  EXPECT_EQ(why([&](auto& s) { change_of(s, "q").value = "x"; }),
            "scale set night: value x: it is an input or output of the model, whose type stays");
  EXPECT_EQ(why([&](auto& s) { change_of(s, "q").value = "none"; }),
            "scale set night: value none: there is no such value");
  EXPECT_EQ(why([&](auto& s) { change_of(s, "q").constant = Tensor::Scalar<float>(1); }),
            "scale set night: value q: a constant for a computed value");
  EXPECT_EQ(why([&](auto& s) { change_of(s, "b").constant = Tensor(); }),
            "scale set night: value b: no constant for a constant");
  EXPECT_EQ(why([&](auto& s) { change_of(s, "q").quant = nullptr; }),
            "scale set night: value q: it is uint8[...](scale 0.1, zero 7), the set has 0 scales");
  EXPECT_EQ(why([&](auto& s) {
              change_of(s, "q").quant =
                  std::make_shared<const QuantParams>(QuantParams{{0.1f, 0.2f}, {7, 7}, 1, 0});
            }),
            "scale set night: value q: 2 scales, expected those of uint8[...](scale 0.1, zero 7)");
  EXPECT_NE(why([&](auto& s) {
              change_of(s, "q").quant =
                  std::make_shared<const QuantParams>(QuantParams::PerTensor(-1, 7));
            }),
            "fits");
  EXPECT_EQ(why([&](auto& s) {
              change_of(s, "b").constant = Tensor::FromValues<int32_t>(Shape{2}, {1, 2});
            }),
            "scale set night: value b: a constant int32[2], expected int32[40]");
}

}  // namespace
}  // namespace evoq
