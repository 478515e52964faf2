// Documents by how well they answer a query, as clients of Jina, Cohere, vLLM, llama.cpp and TEI
// ask.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/asked_model.h"
#include "serve/fields.h"
#include "serve/queued_runs.h"
#include "serve/text_tools.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

constexpr size_t kMaxDocuments = 2048;

struct Asked {
  std::vector<Reranker::Pair> pairs;
  std::vector<std::string> documents;
  size_t most = 0;      // results
  bool told = false;    // with their documents
  bool raw = false;     // logits, not their sigmoids
  bool listed = false;  // as TEI answers
  size_t tokens = 0;    // of all pairs
  std::vector<double> scores;
};

// Texts, or objects that have one.
Result<std::vector<std::string>> ReadDocuments(const json& list, const char* name) {
  if (!list.is_array() || list.empty() || list.size() > kMaxDocuments)
    return InvalidInput("{}: {}, expected a list of at most {} texts", name, Brief(list),
                        kMaxDocuments);
  std::vector<std::string> documents;
  for (const json& one : list) {
    const json& text = one.is_object() && one.contains("text") ? one["text"] : one;
    if (!text.is_string())
      return InvalidInput("{}[{}]: {}, expected a text", name, documents.size(), Brief(one));
    documents.push_back(text.get<std::string>());
  }
  return documents;
}

Result<Asked> ReadAsked(const json& root, const Reranker& reranker) {
  Asked asked;
  Fields fields(root, "");
  std::string query;
  if (!fields.has("query")) return InvalidInput("query: null, expected a text");
  fields.Read("query", query);
  asked.listed = fields.has("texts");
  fields.Read("return_documents", asked.told);
  fields.Read("return_text", asked.told);
  fields.Read("raw_scores", asked.raw);
  const char* const name = asked.listed ? "texts" : "documents";
  EVOQ_ASSIGN(asked.documents, ReadDocuments(fields.Member(name), name));
  int64_t most = std::ssize(asked.documents);
  fields.Read("top_n", most, 1, INT64_MAX);
  EVOQ_TRY(fields.Done(/*others=*/true));
  asked.most = std::min(static_cast<size_t>(most), asked.documents.size());
  EVOQ_ASSIGN(const std::vector<int64_t> tokens, reranker.TokensOf(query));
  for (const std::string& document : asked.documents) {
    EVOQ_ASSIGN(std::vector<int64_t> of_document, reranker.TokensOf(document));
    EVOQ_ASSIGN(asked.pairs.emplace_back(), reranker.PairOf(tokens, std::move(of_document)));
    asked.tokens += asked.pairs.back().tokens.size();
  }
  asked.scores.resize(asked.documents.size());
  return asked;
}

// The best first, equal ones in their order.
json AnswerOf(const Asked& asked, const std::string& model) {
  std::vector<size_t> order(asked.scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return asked.scores[a] > asked.scores[b]; });
  order.resize(asked.most);
  json results = json::array();
  for (const size_t i : order) {
    json one = {{"index", i}, {asked.listed ? "score" : "relevance_score", asked.scores[i]}};
    if (asked.told && asked.listed) one["text"] = asked.documents[i];
    if (asked.told && !asked.listed) one["document"] = {{"text", asked.documents[i]}};
    results.push_back(std::move(one));
  }
  if (asked.listed) return results;
  return {{"object", "list"},
          {"model", model},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", asked.tokens}, {"total_tokens", asked.tokens}}}};
}

}  // namespace

void TextTools::Rerank(const std::shared_ptr<Exchange>& ask) const {
  ask->ErrorsAsOpenAi();
  const auto root = ObjectOf(*ask);
  if (!root) return ask->Refuse(root.error());
  const auto found = RerankerNamed(repository_, *root);
  if (!found) {
    ask->Note("model", Shorten(JsonText(*root, "model")));
    return ask->Refuse(found.error());
  }
  const std::shared_ptr<ServedModel>& model = *found;
  ask->Note("model", Shorten(model->name()));
  const auto refuse = [&](const std::string& why) {
    model->statistics().Failed(Why::kBadRequest, 0);
    ask->Refuse({Why::kBadRequest, why, 0});
  };
  const Reranker* const reranker = model->reranker();
  if (reranker == nullptr)
    return refuse(model->name() +
                  " is no reranker: it is no text encoder with the output logits of one class");
  if (!reranker->why_not().empty())
    return refuse(model->name() + " gives no scores: " + reranker->why_not());
  auto read = ReadAsked(*root, *reranker);
  if (!read) return refuse(read.error().message());
  ask->DropBody();
  const auto asked = std::make_shared<Asked>(std::move(*read));
  QueuedRuns::Work work;
  work.runs = asked->pairs.size();
  work.inputs = [asked, reranker](size_t i) { return reranker->InputsOf(asked->pairs[i]); };
  work.take = [asked, reranker](size_t i, const Tensors& outputs) {
    const double logit = reranker->LogitOf(outputs);
    asked->scores[i] = asked->raw ? logit : 1 / (1 + std::exp(-logit));
  };
  work.answer = [asked, ask, name = model->name()] {
    ask->Note("prompt_tokens", asked->tokens);
    ask->AnswerJson(AnswerOf(*asked, name));
  };
  std::make_shared<QueuedRuns>(ask, model, std::move(work))->Begin();
}

}  // namespace evoq::serve
