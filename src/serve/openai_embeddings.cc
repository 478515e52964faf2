// OpenAI's embeddings: a vector for each text, by an encoder or another model that makes vectors.
#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/brief.h"
#include "base/json_file.h"
#include "serve/asked_model.h"
#include "serve/embedder.h"
#include "serve/fields.h"
#include "serve/openai.h"
#include "serve/queued_runs.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

constexpr size_t kMaxTexts = 2048;  // OpenAI's

struct Asked {
  std::vector<std::vector<int64_t>> texts;  // tokens of each
  bool base64 = false;
  bool listed = false;     // as llama.cpp answers
  int64_t dimensions = 0;  // 0: all
};

Result<std::vector<int64_t>> TokensOf(const json& input, const Embedder& embedder,
                                      const std::string& where) {
  std::vector<int64_t> tokens;
  if (input.is_string()) {
    EVOQ_ASSIGN(tokens, embedder.TokensOf(input.get_ref<const std::string&>()));
  } else if (input.is_array()) {
    const auto most =
        static_cast<uint64_t>(embedder.vocabulary() > 0 ? embedder.vocabulary() : int64_t{1} << 31);
    for (const json& token : input) {
      if (!token.is_number_unsigned() || token.get<uint64_t>() >= most)
        return InvalidInput("{}[{}]: {}, expected a token below {}", where, tokens.size(),
                            Brief(token), most);
      tokens.push_back(token.get<int64_t>());
    }
  } else {
    return InvalidInput("{}: {}, expected a text or a list of tokens", where, Brief(input));
  }
  if (tokens.empty()) return InvalidInput("{}: no token", where);
  if (embedder.context() > 0 && static_cast<int64_t>(tokens.size()) > embedder.context())
    return InvalidInput("{}: {} tokens, expected at most {}", where, tokens.size(),
                        embedder.context());
  return tokens;
}

// A text, a list of tokens, or a list of either, in the member `name`.
Result<std::vector<std::vector<int64_t>>> TextsOf(const json& input, const Embedder& embedder,
                                                  const char* name) {
  const bool several =
      input.is_array() && !input.empty() && (input[0].is_string() || input[0].is_array());
  std::vector<std::vector<int64_t>> texts;
  if (!several) {
    EVOQ_ASSIGN(texts.emplace_back(), TokensOf(input, embedder, name));
    return texts;
  }
  if (input.size() > kMaxTexts)
    return InvalidInput("{}: {} texts, expected at most {}", name, input.size(), kMaxTexts);
  for (const json& one : input) {
    const std::string where = fmt::format("{}[{}]", name, texts.size());
    EVOQ_ASSIGN(std::vector<int64_t> tokens, TokensOf(one, embedder, where));
    texts.push_back(std::move(tokens));
  }
  return texts;
}

// `listed`: llama.cpp's, of texts in `content`.
Result<Asked> ReadAsked(const json& root, const Embedder& embedder, bool listed) {
  Asked asked;
  asked.listed = listed;
  Fields fields(root, "");
  std::string format = "float";
  fields.Read("encoding_format", format);
  if (format != "float" && format != "base64")
    fields.Fail("encoding_format", "\"float\" or \"base64\"");
  asked.base64 = format == "base64";
  fields.Read("dimensions", asked.dimensions, 1,
              embedder.width() > 0 ? embedder.width() : int64_t{1} << 31);
  EVOQ_TRY(fields.Done(/*others=*/true));
  const char* const name = listed && fields.has("content") ? "content" : "input";
  EVOQ_ASSIGN(asked.texts, TextsOf(fields.Member(name), embedder, name));
  return asked;
}

// The vectors of one request, which come one by one.
class Vectors {
 public:
  Vectors(std::shared_ptr<Exchange> ask, std::shared_ptr<ServedModel> model, Asked asked)
      : ask_(std::move(ask)),
        model_(std::move(model)),
        asked_(std::move(asked)),
        vectors_(asked_.texts.size()) {}

  static void Begin(std::shared_ptr<Vectors> vectors) {
    QueuedRuns::Work work;
    work.runs = vectors->asked_.texts.size();
    work.inputs = [vectors](size_t i) {
      return vectors->model_->embedder()->InputsOf(vectors->asked_.texts[i]);
    };
    work.take = [vectors](size_t i, const Tensors& outputs) {
      vectors->vectors_[i] =
          vectors->model_->embedder()->VectorOf(outputs, vectors->asked_.dimensions);
    };
    work.answer = [vectors] { vectors->Answer(); };
    std::make_shared<QueuedRuns>(vectors->ask_, vectors->model_, std::move(work))->Begin();
  }

 private:
  void Answer() {
    json data = json::array();
    size_t tokens = 0;
    for (size_t i = 0; i < vectors_.size(); ++i) {
      const std::vector<float>& v = vectors_[i];
      json vector = v;
      if (asked_.base64)
        vector = ToBase64({reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)});
      if (asked_.listed) {
        data.push_back({{"index", i}, {"embedding", json::array({std::move(vector)})}});
      } else {
        data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
      }
      tokens += asked_.texts[i].size();
    }
    ask_->Note("prompt_tokens", tokens);
    if (asked_.listed) return ask_->AnswerJson(data);
    ask_->AnswerJson({{"object", "list"},
                      {"model", model_->name()},
                      {"data", std::move(data)},
                      {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
  }

  const std::shared_ptr<Exchange> ask_;
  const std::shared_ptr<ServedModel> model_;
  const Asked asked_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace

void OpenAi::Embeddings(const std::shared_ptr<Exchange>& ask, bool listed) const {
  ask->ErrorsAsOpenAi();
  const auto root = ObjectOf(*ask);
  if (!root) return ask->Refuse(root.error());
  const auto model = EmbedderNamed(repository_, *root);
  if (!model) {
    ask->Note("model", Shorten(JsonText(*root, "model")));
    return ask->Refuse(model.error());
  }
  const std::string& name = (*model)->name();
  ask->Note("model", Shorten(name));
  const auto refuse = [&](const std::string& why) {
    (*model)->statistics().Failed(Why::kBadRequest, 0);
    ask->Refuse({Why::kBadRequest, why, 0});
  };
  if ((*model)->text() != nullptr)
    return refuse(name +
                  " writes text: what its layers hold of a text is no output of it; folders of "
                  "sentence-transformers (docs/serve.md) give embeddings");
  const Embedder* const embedder = (*model)->embedder();
  if (embedder == nullptr)
    return refuse(name +
                  " is no encoder: it has not the inputs input_ids and attention_mask and "
                  "an output sentence_embedding or last_hidden_state");
  if (!embedder->why_not().empty())
    return refuse(name + " gives no embeddings: " + embedder->why_not());
  auto asked = ReadAsked(*root, *embedder, listed);
  if (!asked) return refuse(asked.error().message());
  ask->DropBody();
  Vectors::Begin(std::make_shared<Vectors>(ask, *model, std::move(*asked)));
}

}  // namespace evoq::serve
