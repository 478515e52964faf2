// From a small float model to a certificate and back. Speed itself is not tested: only what is
// concluded from it.
#include "certify/certify.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "certify/attribution.h"
#include "certify/speed.h"
#include "certify/test_job.h"
#include "certify/twin.h"
#include "models/models.h"
#include "program/etm.h"

namespace evoq {
namespace {

class CertifyTest : public ConvNetTest {
 protected:
  CertifyTest() : ConvNetTest(24) {}

  CertifyJob Job(const std::string& scheme, const Promise& promise) {
    CertifyJob job;
    job.onnx_path = At("net.onnx");
    job.scheme = scheme;
    job.promise = promise;
    job.search_s = 1;
    job.measure_s = 0.1;
    job.choose = Search();
    return job;
  }

  // Writes a certified model whose certificate went through `change`.
  void Write(Certified certified, const std::string& path,
             const std::function<void(Certificate&)>& change = nullptr) {
    if (change) {
      change(certified.certificate);
      certified.model.certificate = ToJson(certified.certificate).dump();
    }
    ASSERT_TRUE(WriteEtm(certified.model, path));
  }

  // "speed accuracy" of the lines that fail.
  std::string Failures(const std::string& path, const Samples* samples,
                       const std::string& baseline = "") {
    const auto v = Verify({path, baseline, 0, 0.05, nullptr}, samples);
    EXPECT_TRUE(v) << v.error().message();
    std::vector<std::string> failed;
    if (v) {
      for (const VerifyLine& line : v->lines) {
        if (line.state == VerifyLine::State::kFails) failed.push_back(line.name);
      }
      EXPECT_EQ(v->holds(), failed.empty());
    }
    return fmt::format("{}", fmt::join(failed, " "));
  }
};

constexpr auto kAnySpeed = [](Certificate& c) { c.speed.guaranteed = 0.001; };

TEST_F(CertifyTest, AutomaticChoiceIsVerified) {
  const auto certified = QuantizeCertified(Job("auto", {.max_drop = 10}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  EXPECT_EQ(certified->certificate.accuracy.metric, Metric::kAgreement);
  EXPECT_LE(certified->certificate.accuracy.drop.value, 10);
  EXPECT_EQ(certified->certificate.float_classes.size(), 24u);
  EXPECT_FALSE(certified->certificate.float_graph.empty());
  int layers = 0;
  for (const auto& [scheme, count] : certified->certificate.layers) layers += count;
  EXPECT_EQ(layers, 5);
  Write(*certified, At("auto.etm"), kAnySpeed);
  EXPECT_EQ(Failures(At("auto.etm"), &samples_), "");
  EXPECT_EQ(Failures(At("auto.etm"), &samples_, At("net.onnx")), "");
  const auto blind = Verify({At("auto.etm"), "", 0, 0.05, nullptr}, nullptr);
  ASSERT_TRUE(blind) << blind.error().message();
  EXPECT_EQ(blind->lines[1].state, VerifyLine::State::kUnchecked);
}

TEST_F(CertifyTest, NothingKeepsThePromiseSoFloatIsWritten) {
  const auto certified = QuantizeCertified(Job("auto", {.min_sqnr_db = 200}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  EXPECT_TRUE(certified->certificate.is_float);
  EXPECT_EQ(certified->certificate.speed.guaranteed, 1);
  EXPECT_EQ(certified->certificate.layers, (std::map<std::string, int>{{"float32", 5}}));
  for (const auto& [node, decision] : certified->model.plans[0].decisions)
    EXPECT_NE(decision.precision, Precision::kInt8) << node;
  Write(*certified, At("float.etm"));
  EXPECT_EQ(Failures(At("float.etm"), &samples_, At("net.onnx")), "");
}

TEST_F(CertifyTest, AMethodThatBreaksThePromiseIsRefused) {
  const auto certified = QuantizeCertified(Job("int8", {.min_sqnr_db = 100}), samples_);
  ASSERT_FALSE(certified);
  EXPECT_EQ(certified.error().code(), ErrorCode::kConditionFailed);
  EXPECT_NE(certified.error().message().find("too much accuracy is lost"), std::string::npos)
      << certified.error().message();
}

TEST_F(CertifyTest, AWorseModelFails) {
  auto certified = QuantizeCertified(Job("int8", {.min_sqnr_db = 15}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  Write(*certified, At("good.etm"), kAnySpeed);
  EXPECT_EQ(Failures(At("good.etm"), &samples_, At("net.onnx")), "");
  // The same certificate on other weights.
  Graph other = MakeNet(kConvNet, 0.3f, 7);
  ASSERT_TRUE(QuantizeStatic(other, Job("int8", {}).choose.ranges, {}));
  auto model = LowerAndPack(std::move(other));
  ASSERT_TRUE(model) << model.error().message();
  certified->model.graph = model->graph;
  certified->model.plans = model->plans;
  Write(*certified, At("worse.etm"), kAnySpeed);
  EXPECT_EQ(Failures(At("worse.etm"), &samples_, At("net.onnx")), "accuracy");
}

TEST_F(CertifyTest, ASlowerModelFails) {
  const auto certified = QuantizeCertified(Job("int8", {.max_drop = 100}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  Write(*certified, At("slow.etm"), [](Certificate& c) { c.speed.guaranteed = 1000; });
  EXPECT_EQ(Failures(At("slow.etm"), nullptr), "speed");
}

TEST_F(CertifyTest, OtherSamplesNeedTheFloatModel) {
  const auto certified = QuantizeCertified(Job("int8", {.max_drop = 50}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  Write(*certified, At("net.etm"), kAnySpeed);
  Samples other = samples_;
  other.inputs[0] = {RandomInput(net_, 99)};
  const auto alone = Verify({At("net.etm"), "", 0, 0.05, nullptr}, &other);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(Failures(At("net.etm"), &other, At("net.onnx")), "");
  ASSERT_TRUE(ExportOnnx(MakeNet(kConvNet, 0.3f, 7), At("other.onnx")));
  const auto wrong = Verify({At("net.etm"), At("other.onnx"), 0, 0.05, nullptr}, &other);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("is not the float model of the certificate"),
            std::string::npos)
      << wrong.error().message();
}

TEST_F(CertifyTest, LabelsMakeItTop1) {
  auto engine = EngineFromGraph(net_, {1, {}});
  ASSERT_TRUE(engine);
  const auto answers = Answer(**engine, samples_);
  ASSERT_TRUE(answers);
  for (size_t i = 0; i < samples_.labels.size(); ++i)
    samples_.labels[i] = i < 18 ? answers->classes[i] : (answers->classes[i] + 1) % 10;
  const auto certified = QuantizeCertified(Job("bf16", {.max_drop = 10}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  EXPECT_EQ(certified->certificate.accuracy.metric, Metric::kTop1);
  EXPECT_EQ(certified->certificate.accuracy.reference.value, 18.0 / 24);
}

TEST_F(CertifyTest, CertificatesSurviveJsonAndSayWhatIsWrong) {
  const auto certified =
      QuantizeCertified(Job("int8", {.max_drop = 50, .never_slower = false}), samples_);
  ASSERT_TRUE(certified) << certified.error().message();
  const nlohmann::json good = ToJson(certified->certificate);
  const auto back = ParseCertificate(good.dump());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(ToJson(*back), good);
  EXPECT_EQ(ToText(*back), ToText(certified->certificate));
  const auto message = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json bad = good;
    change(bad);
    const auto parsed = ParseCertificate(bad.dump());
    return parsed ? "" : parsed.error().message();
  };
  EXPECT_EQ(message([](auto& c) { c["speed"].erase("guaranteed"); }),
            "the certificate's field speed.guaranteed is missing or of the wrong kind");
  EXPECT_EQ(message([](auto& c) { c["threads"] = 0; }),
            "the certificate's field threads is missing or of the wrong kind");
  EXPECT_EQ(message([](auto& c) { c["shapes"]["x"] = "3"; }),
            "the certificate's field shapes.x is missing or of the wrong kind");
  EXPECT_EQ(message([](auto& c) { c["version"] = 2; }),
            "a certificate of version 2, this evoq knows 1");
  EXPECT_FALSE(ParseCertificate("[]"));
  EXPECT_FALSE(ParseCertificate(""));
}

TEST_F(CertifyTest, TheTwinHasTheFloatModelsStepsAndNotItsWeights) {
  const std::string text = TwinText(net_);
  EXPECT_LT(text.size(), 4000u);
  auto twin = BuildTwin(text);
  ASSERT_TRUE(twin) << twin.error().message();
  auto a = EngineFromGraph(net_, {1, {}}), b = EngineFromGraph(*twin, {1, {}});
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(SameSteps((*(*a)->Default())->program(), (*(*b)->Default())->program()));
  Graph q = net_;
  ASSERT_TRUE(QuantizeWeights(q, {}));
  auto c = EngineFromGraph(q, {1, {}});
  ASSERT_TRUE(c);
  EXPECT_FALSE(SameSteps((*(*a)->Default())->program(), (*(*c)->Default())->program()));
  const Tensor input = RandomInput(net_, 5);
  const auto out = (*b)->Run(std::span(&input, 1));
  ASSERT_TRUE(out);
  for (float v : (*out)[0].values<float>())
    EXPECT_TRUE(std::isnormal(v) && std::fabs(v) < 1e3f) << v;
}

TEST(Twin, SmallConstantsAreKeptAndLargeOnesMadeUp) {
  // Eight elements are printed, nine are not. Vectors get values in [0.5, 1.5), a matrix of 64 x 16
  // values in +-sqrt(3 / 64): of uniform ones the variance is 1 / 64, so that a sum of 64 has 1.
  auto graph = ParseGraph(R"(
input %x: float32[1, 64]
const %small: float32[8] = [1, 2, 3, 4, 5, 6, 7, -80]
const %vector: float32[900]
const %w: float32[64, 16]
a: %a: float32[1, 16] = MatMul(%x, %w)
b: %b: float32[8] = Relu(%small)
c: %c: float32[900] = Relu(%vector)
output %a
output %b
output %c
)");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto twin = BuildTwin(TwinText(*graph));
  ASSERT_TRUE(twin) << twin.error().message();
  const auto values = [&](const char* name) {
    const auto of = twin->value(twin->FindValue(name)).constant.values<float>();
    return std::vector<float>(of.begin(), of.end());
  };
  EXPECT_EQ(values("small"), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, -80}));
  const auto range = [&](const char* name) {
    const std::vector<float> v = values(name);
    return std::pair(*std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end()));
  };
  const auto [low, high] = range("vector");
  EXPECT_GE(low, 0.5f);
  EXPECT_LT(low, 0.55f);
  EXPECT_LT(high, 1.5f);
  EXPECT_GT(high, 1.45f);
  const float most = std::sqrt(3.0f / 64);
  const auto [least, greatest] = range("w");
  EXPECT_GE(least, -most);
  EXPECT_LT(least, -0.95f * most);
  EXPECT_LE(greatest, most);
  EXPECT_GT(greatest, 0.95f * most);
}

// {from, to, elements} of each link.
using Links = std::vector<std::tuple<int, std::vector<int>, double>>;
Links LinksOf(const Attribution& attribution) {
  Links links;
  for (const auto& link : attribution.links())
    links.emplace_back(link.from, link.to, link.elements);
  return links;
}

TEST(Attribution, LinksAreTheValuesThatLayersGiveToOthers) {
  // What stays within a layer (the pooling behind `project`, the mean behind `last`) is none.
  EXPECT_EQ(LinksOf(Attribution(MakeNet(kConvNet))), (Links{{-1, {0}, 3 * 144},
                                                            {0, {1, 2}, 8 * 144},
                                                            {1, {2}, 8 * 144},
                                                            {2, {3}, 8 * 36},
                                                            {3, {4}, 16},
                                                            {4, {-1}, 10}}));
  // A node of two inputs belongs to the layer of the first.
  EXPECT_EQ(LinksOf(Attribution(MakeNet(R"(graph net
input %x: float32[1, 4, 8, 8]
const %w: float32[4, 4, 1, 1]
a: %a: float32[1, 4, 8, 8] = Conv(%x, %w)
b: %b: float32[1, 4, 8, 8] = Conv(%x, %w)
sum: %s: float32[1, 4, 8, 8] = Add(%b, %a)
c: %c: float32[1, 4, 8, 8] = Conv(%s, %w)
output %c
)"))),
            (Links{{-1, {0, 1}, 256}, {0, {1}, 256}, {1, {2}, 256}, {2, {-1}, 256}}));
}

TEST_F(CertifyTest, StepsBelongToLayers) {
  const Attribution attribution(net_);
  ASSERT_EQ(attribution.layers(), 5);
  EXPECT_EQ(attribution.name(2), "project");
  for (const char* scheme : {"float32", "int8", "int8-dynamic", "bf16"}) {
    Graph q = net_;
    ASSERT_TRUE(FindScheme(scheme)->run(q, Job(scheme, {}).choose.ranges, {}));
    auto engine = EngineFromGraph(q, {1, {}});
    ASSERT_TRUE(engine);
    const Program& program = (*(*engine)->Default())->program();
    const std::vector<int> owners = attribution.OfSteps(program);
    const std::map<std::string, int> wanted = {{"stem", 0},   {"depthwise", 1}, {"project", 2},
                                               {"pool", 2},   {"last", 3},      {"mean", 3},
                                               {"classes", 4}};
    std::set<int> seen(owners.begin(), owners.end());
    EXPECT_EQ(seen.size(), 5u) << scheme;
    for (size_t s = 0; s < owners.size(); ++s) {
      const std::string& name = program.graph->node(program.steps[s].node).name;
      if (wanted.count(name)) EXPECT_EQ(owners[s], wanted.at(name)) << scheme << " " << name;
    }
  }
  // A conversion to a narrower type belongs to the layer that reads it, though it carries the name
  // of what gives it: `last`, alone in a scheme, reads what `pool` gives.
  for (const char* scheme : {"int8", "int8-dynamic", "bf16"}) {
    Graph q = net_;
    ASSERT_TRUE(QuantizeMixed(q, Job(scheme, {}).choose.ranges, {}, {{"last", {scheme, {}}}}));
    auto engine = EngineFromGraph(q, {1, {}});
    ASSERT_TRUE(engine);
    const Program& program = (*(*engine)->Default())->program();
    const std::vector<int> owners = attribution.OfSteps(program);
    int narrowing = 0;
    for (size_t s = 0; s < owners.size(); ++s) {
      const Node& node = program.graph->node(program.steps[s].node);
      if (node.op != "QuantizeLinear" && node.op != "DynamicQuantizeLinear" && node.op != "Cast")
        continue;
      EXPECT_EQ(owners[s], 3) << scheme << " " << node.name;
      ++narrowing;
    }
    EXPECT_EQ(narrowing, 1) << scheme;
  }
}

}  // namespace
}  // namespace evoq
