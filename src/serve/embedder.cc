#include "serve/embedder.h"

#include <algorithm>
#include <cmath>

#include "llm/facts.h"

namespace evoq::serve {
namespace {

bool IsRank(const TensorType& type, DType dtype, int rank) {
  return type.is_tensor() && type.dtype == dtype && type.shape.ranked() &&
         type.shape.rank() == rank;
}

// Which output holds vectors.
std::optional<size_t> OutputOf(const Graph& graph) {
  const struct {
    const char* name;
    int rank;
  } kinds[] = {{"sentence_embedding", 2}, {"last_hidden_state", 3}};
  const auto& outputs = graph.outputs();
  for (const auto& [name, rank] : kinds) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value& value = graph.value(outputs[i]);
      if ((value.name == name || (rank == 3 && outputs.size() == 1)) &&
          IsRank(value.type, DType::kFloat32, rank))
        return i;
    }
  }
  return std::nullopt;
}

}  // namespace

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
  const std::optional<size_t> output = OutputOf(graph);
  if (!output) return std::optional<Embedder>();
  embedder.output_ = *output;
  const Shape& shape = graph.value(graph.outputs()[*output]).type.shape;
  embedder.pooled_ = shape.rank() == 2;
  if (const Dim width = shape[shape.rank() - 1]; width.known()) embedder.width_ = width.value;
  if (IsTextEncoder(graph)) {
    EVOQ_ASSIGN(const LanguageModelFacts facts, ReadFacts(graph));
    embedder.context_ = facts.context;
    embedder.max_length_ = facts.max_length;
    embedder.vocabulary_ = facts.vocabulary;
    embedder.prompt_ = facts.prompt;
    embedder.normalize_ = facts.normalize;
    EVOQ_ASSIGN(ModelTokenizer text, TokenizerOf(graph));
    embedder.tokenizer_ = std::move(text.tokenizer);
  }
  if (graph.metadata.contains("llm.pooling") && !embedder.pooled_)
    embedder.why_not_ =
        "its file is from an evoq that left the pooling to its user: compile it again";
  return std::optional<Embedder>(std::move(embedder));
}

Result<std::vector<int64_t>> Embedder::TokensOf(std::string_view text) const {
  if (!tokenizer_)
    return Unsupported("the model carries no tokenizer: an input must be a list of tokens");
  const std::string whole = prompt_ + std::string(text);
  EVOQ_ASSIGN(std::vector<int64_t> tokens, tokenizer_->Encode(whole, {.add_special = true}));
  const auto size = static_cast<int64_t>(tokens.size());
  if (max_length_ <= 0 || size <= max_length_) return tokens;
  EVOQ_ASSIGN(const std::vector<int64_t> inner, tokenizer_->Encode(whole, {.add_special = false}));
  const auto begin = std::ranges::search(tokens, inner).begin();
  // The end of the text's tokens goes, and what stands behind them moves there.
  const int64_t behind =
      std::max<int64_t>(tokens.end() - begin - static_cast<int64_t>(inner.size()), 0);
  const int64_t kept = std::max<int64_t>(max_length_ - behind, 0);
  tokens.erase(tokens.begin() + kept, tokens.end() - std::min(behind, max_length_));
  return tokens;
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
  const Tensor& output = outputs[output_];
  const int64_t width = output.sizes().back(), count = pooled_ ? 1 : output.sizes()[1];
  std::vector<double> vector(static_cast<size_t>(width));
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < width; ++i)
      vector[static_cast<size_t>(i)] += static_cast<double>(output.data<float>()[t * width + i]);
  }
  for (double& x : vector) x /= static_cast<double>(std::max<int64_t>(count, 1));
  if (dimensions <= 0 || dimensions >= width)
    return std::vector<float>(vector.begin(), vector.end());
  vector.resize(static_cast<size_t>(dimensions));
  double length = 0;
  for (double x : vector) length += x * x;
  const double by = normalize_ && length > 0 ? std::sqrt(length) : 1;
  std::vector<float> out;
  for (double x : vector) out.push_back(static_cast<float>(x / by));
  return out;
}

}  // namespace evoq::serve
