#include "serve/reranker.h"

#include <algorithm>

#include "llm/facts.h"

namespace evoq::serve {
namespace {

bool IsRank2(const TensorType& type, DType dtype) {
  return type.is_tensor() && type.dtype == dtype && type.shape.ranked() && type.shape.rank() == 2;
}

constexpr char kTokens[] = "input_ids", kMask[] = "attention_mask", kTypes[] = "token_type_ids";

}  // namespace

std::optional<Reranker> Reranker::Of(const Graph& graph) {
  if (!IsTextEncoder(graph)) return std::nullopt;
  Reranker reranker;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    const bool known = value.name == kTokens || value.name == kMask || value.name == kTypes;
    if (!known || !IsRank2(value.type, DType::kInt64)) return std::nullopt;
    reranker.inputs_.push_back(value.name);
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value& value = graph.value(graph.outputs()[i]);
    if (value.name != "logits" || !IsRank2(value.type, DType::kFloat32)) continue;
    if (value.type.shape[1] != Dim(1)) return std::nullopt;
    reranker.output_ = i;
    if (const Status read = reranker.Read(graph); !read) reranker.why_not_ = read.error().message();
    return reranker;
  }
  return std::nullopt;
}

Status Reranker::Read(const Graph& graph) {
  EVOQ_ASSIGN(const LanguageModelFacts facts, ReadFacts(graph));
  most_ = facts.max_length > 0 ? facts.max_length : facts.context;
  EVOQ_ASSIGN(ModelTokenizer text, TokenizerOf(graph));
  tokenizer_ = std::move(text.tokenizer);
  const auto file = facts.files.find("tokenizer.json");
  if (!tokenizer_ || file == facts.files.end())
    return Unsupported("the model carries no tokenizer.json");
  EVOQ_ASSIGN(template_, ReadPairTemplate(file->second));
  return {};
}

Result<std::vector<int64_t>> Reranker::TokensOf(std::string_view text) const {
  return tokenizer_->Encode(text, {.add_special = false});
}

Result<Reranker::Pair> Reranker::PairOf(const std::vector<int64_t>& query,
                                        std::vector<int64_t> document) const {
  const int64_t around = std::ssize(template_.parts) - 2, room = most_ - around;
  if (most_ > 0 && std::ssize(query) >= room)
    return InvalidInput("query: {} tokens, expected fewer than {}", query.size(), room);
  if (most_ > 0 && std::ssize(query) + std::ssize(document) > room)
    document.resize(static_cast<size_t>(room) - query.size());
  Pair pair;
  for (const PairTemplate::Part& part : template_.parts) {
    if (part.kind == PairTemplate::Kind::kPiece) {
      pair.tokens.push_back(part.piece);
    } else {
      const auto& text = part.kind == PairTemplate::Kind::kFirst ? query : document;
      pair.tokens.insert(pair.tokens.end(), text.begin(), text.end());
    }
    pair.types.resize(pair.tokens.size(), part.type);
  }
  return pair;
}

Tensors Reranker::InputsOf(const Pair& pair) const {
  const Shape shape{1, std::ssize(pair.tokens)};
  Tensors inputs;
  for (const std::string& name : inputs_) {
    const bool mask = name == kMask;
    inputs.push_back(
        Tensor::FromValues<int64_t>(shape, mask ? std::vector<int64_t>(pair.tokens.size(), 1)
                                           : name == kTypes ? pair.types
                                                            : pair.tokens));
  }
  return inputs;
}

double Reranker::LogitOf(const Tensors& outputs) const {
  return static_cast<double>(outputs[output_].data<float>()[0]);
}

}  // namespace evoq::serve
