#include "serve/embedder.h"

#include <algorithm>
#include <cmath>

#include "llm/facts.h"

namespace evoq::serve {
namespace {

void Sum(const float* tokens, int64_t count, int64_t width, double* vector) {
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < width; ++i) vector[i] += tokens[t * width + i];
  }
}

void Mean(const float* tokens, int64_t count, int64_t width, double* vector) {
  Sum(tokens, count, width, vector);
  for (int64_t i = 0; i < width; ++i) vector[i] /= static_cast<double>(count);
}

void MeanSqrt(const float* tokens, int64_t count, int64_t width, double* vector) {
  Sum(tokens, count, width, vector);
  for (int64_t i = 0; i < width; ++i) vector[i] /= std::sqrt(static_cast<double>(count));
}

void Cls(const float* tokens, int64_t, int64_t width, double* vector) {
  std::copy(tokens, tokens + width, vector);
}

void Last(const float* tokens, int64_t count, int64_t width, double* vector) {
  Cls(tokens + (count - 1) * width, 1, width, vector);
}

void Max(const float* tokens, int64_t count, int64_t width, double* vector) {
  Cls(tokens, 1, width, vector);
  for (int64_t t = 1; t < count; ++t) {
    for (int64_t i = 0; i < width; ++i)
      vector[i] = std::max(vector[i], static_cast<double>(tokens[t * width + i]));
  }
}

bool IsRank(const TensorType& type, DType dtype, int rank) {
  return type.is_tensor() && type.dtype == dtype && type.shape.ranked() &&
         type.shape.rank() == rank;
}

}  // namespace

const Embedder::Pooling* Embedder::FindPooling(std::string_view name) {
  static constexpr Pooling kAll[] = {
      {"mean", Mean}, {"cls", Cls}, {"max", Max}, {"mean-sqrt", MeanSqrt}, {"last", Last}};
  const auto found =
      std::ranges::find(kAll, name, [](const Pooling& p) { return std::string_view(p.name); });
  return found == std::end(kAll) ? nullptr : found;
}

Result<std::optional<Embedder>> Embedder::Of(const Graph& graph) {
  Embedder embedder;
  for (ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (!IsRank(value.type, DType::kInt64, 2)) return std::optional<Embedder>();
    if (value.name == "input_ids") {
      embedder.inputs_.push_back(Input::kTokens);
    } else if (value.name == "attention_mask") {
      embedder.inputs_.push_back(Input::kMask);
    } else if (value.name == "token_type_ids") {
      embedder.inputs_.push_back(Input::kTypes);
    } else {
      return std::optional<Embedder>();
    }
  }
  for (const Input needed : {Input::kTokens, Input::kMask}) {
    if (std::ranges::find(embedder.inputs_, needed) == embedder.inputs_.end())
      return std::optional<Embedder>();
  }
  const auto& outputs = graph.outputs();
  const auto named = std::ranges::find_if(
      outputs, [&](ValueId id) { return graph.value(id).name == "last_hidden_state"; });
  if (named == outputs.end() && outputs.size() != 1) return std::optional<Embedder>();
  embedder.output_ = named == outputs.end() ? 0 : static_cast<size_t>(named - outputs.begin());
  const TensorType& hidden = graph.value(outputs[embedder.output_]).type;
  if (!IsRank(hidden, DType::kFloat32, 3)) return std::optional<Embedder>();
  if (hidden.shape[2].known()) embedder.width_ = hidden.shape[2].value;
  std::string pooling = "mean";
  if (IsTextEncoder(graph)) {
    EVOQ_ASSIGN(const LanguageModelFacts facts, ReadFacts(graph));
    embedder.context_ = facts.context;
    embedder.vocabulary_ = facts.vocabulary;
    embedder.normalize_ = facts.normalize;
    if (!facts.pooling.empty()) pooling = facts.pooling;
    EVOQ_ASSIGN(ModelTokenizer text, TokenizerOf(graph));
    embedder.tokenizer_ = std::move(text.tokenizer);
  }
  embedder.pooling_ = FindPooling(pooling);
  if (embedder.pooling_ == nullptr)
    embedder.why_not_ =
        fmt::format("its folder makes vectors by {}, which this server has not", pooling);
  return std::optional<Embedder>(std::move(embedder));
}

Result<std::vector<int64_t>> Embedder::TokensOf(std::string_view text) const {
  if (!tokenizer_)
    return Unsupported("the model carries no tokenizer: an input must be a list of tokens");
  return tokenizer_->Encode(text, {.add_special = true});
}

Tensors Embedder::InputsOf(const std::vector<int64_t>& tokens) const {
  const Shape shape{1, static_cast<int64_t>(tokens.size())};
  Tensors inputs;
  for (const Input input : inputs_) {
    if (input == Input::kTokens) {
      inputs.push_back(Tensor::FromValues<int64_t>(shape, tokens));
    } else {
      const std::vector<int64_t> all(tokens.size(), input == Input::kMask ? 1 : 0);
      inputs.push_back(Tensor::FromValues<int64_t>(shape, all));
    }
  }
  return inputs;
}

std::vector<float> Embedder::VectorOf(const Tensors& outputs, int64_t dimensions) const {
  const Tensor& hidden = outputs[output_];
  const int64_t count = hidden.sizes()[1], width = hidden.sizes()[2];
  std::vector<double> vector(static_cast<size_t>(width));
  if (count > 0) pooling_->pool(hidden.data<float>(), count, width, vector.data());
  if (dimensions > 0) vector.resize(static_cast<size_t>(std::min(dimensions, width)));
  double length = 0;
  for (double x : vector) length += x * x;
  const double by = normalize_ && length > 0 ? std::sqrt(length) : 1;
  std::vector<float> out;
  for (double x : vector) out.push_back(static_cast<float>(x / by));
  return out;
}

}  // namespace evoq::serve
