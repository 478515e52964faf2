// Checkpoints of llama2.c against the same models exported to ONNX, whole and token by token.
#include <gtest/gtest.h>

#include <cmath>

#include "llm/facts.h"
#include "models/models.h"
#include "onnx/test_data.h"

namespace evoq {
namespace {

Tensor Int64s(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::FromValues<int64_t>(std::move(shape), values);
}

// A model of BuildLanguageModel with its caches.
class Chat {
 public:
  Chat(Engine& engine, int64_t context) : engine_(engine) {
    const Graph& graph = engine.model().graph;
    for (ValueId id : graph.inputs()) {
      const Shape& shape = graph.value(id).type.shape;
      if (shape.rank() == 4)
        caches_.push_back(Tensor::Allocate(
            TensorType(DType::kFloat32, Shape{1, shape[1].value, context, shape[3].value})));
    }
  }

  // Logits [tokens, vocabulary] of all tokens, which come behind those before.
  Result<Tensor> Next(const std::vector<int64_t>& tokens) {
    const auto n = static_cast<int64_t>(tokens.size());
    std::vector<int64_t> all;
    for (int64_t i = 0; i < n; ++i) all.push_back(i);
    std::vector<Tensor> inputs = {Int64s({1, n}, tokens), Int64s({1}, {position_}),
                                  Int64s({1, n}, all)};
    inputs.insert(inputs.end(), caches_.begin(), caches_.end());
    EVOQ_ASSIGN(std::vector<Tensor> outputs, engine_.Run(inputs));
    position_ += n;
    for (size_t i = 0; i < caches_.size(); ++i) caches_[i] = outputs[i + 1];
    return outputs[0];
  }

 private:
  Engine& engine_;
  int64_t position_ = 0;
  std::vector<Tensor> caches_;
};

std::vector<int64_t> SomeTokens(int64_t n, int64_t vocabulary) {
  std::vector<int64_t> tokens = {1};
  for (int64_t i = 1; i < n; ++i) tokens.push_back((i * i * 31 + 7 * i) % vocabulary);
  return tokens;
}

// The largest difference, as a share of the largest magnitude.
double Difference(std::span<const float> a, std::span<const float> b) {
  double most = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
  }
  return most / largest;
}

struct Pair {
  const char *bin, *onnx;
};

class Checkpoints : public testing::TestWithParam<Pair> {};

TEST_P(Checkpoints, GivesTheLogitsOfItsExport) {
  const std::string data = DataFolder();
  if (data.empty()) GTEST_SKIP() << "no data folder: set EVOQ_DATA";
  const auto exported = LoadEngine(data + "/models/" + GetParam().onnx, {.threads = 1});
  ASSERT_TRUE(exported) << exported.error().message();
  const auto engine = LoadEngine(data + "/llm/" + GetParam().bin, {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message();
  const auto facts = ReadFacts((*engine)->model().graph);
  ASSERT_TRUE(facts) << facts.error().message();
  constexpr int64_t kTokens = 24;
  const std::vector<int64_t> tokens = SomeTokens(kTokens, facts->vocabulary);
  const Tensor ids = Int64s({1, kTokens}, tokens);
  const auto wanted = (*exported)->Run(std::span(&ids, 1));
  ASSERT_TRUE(wanted) << wanted.error().message();
  const std::span<const float> truth = (*wanted)[0].values<float>();

  const auto whole = Chat(**engine, 40).Next(tokens);
  ASSERT_TRUE(whole) << whole.error().message();
  ASSERT_EQ(whole->sizes(), (std::vector<int64_t>{1, kTokens, facts->vocabulary}));
  EXPECT_LT(Difference(truth, whole->values<float>()), 1e-5);

  Chat chat(**engine, 40);  // ten tokens, then one by one
  const auto prompt = chat.Next({tokens.begin(), tokens.begin() + 10});
  ASSERT_TRUE(prompt) << prompt.error().message();
  for (size_t i = 10; i < tokens.size(); ++i) {
    const auto next = chat.Next({tokens[i]});
    ASSERT_TRUE(next) << next.error().message();
    const auto vocabulary = static_cast<size_t>(facts->vocabulary);
    EXPECT_LT(Difference(truth.subspan(i * vocabulary, vocabulary), next->values<float>()), 1e-5)
        << "token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoints,
                         testing::Values(Pair{"stories260K.bin", "stories260K.onnx"},
                                         Pair{"babyllama105_model5000.bin", "babyllama105.onnx"}),
                         [](const auto& info) {
                           return std::string(info.param.onnx, std::strchr(info.param.onnx, '.'));
                         });

}  // namespace
}  // namespace evoq
