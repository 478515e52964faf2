#include "evoq/language.h"

#include "base/guarded.h"
#include "base/turn.h"
#include "language/session.h"

namespace evoq::language {
inline namespace v2 {
namespace {

// What `task` gives; nothing where it fails, with the reason.
template <typename Task>
auto Enter(std::string* error, const Task& task)
    -> std::optional<typename std::invoke_result_t<Task>::value_type> {
  auto result = Guarded(task);
  if (result) return std::move(*result);
  if (error != nullptr) *error = SentenceOf(result.error());
  return std::nullopt;
}

bool Done(std::string* error, const std::function<Status()>& task) {
  const Status status = Guarded(task);
  if (!status && error != nullptr) *error = SentenceOf(status.error());
  return status.has_value();
}

Result<evoq::GenerateOptions> Inner(const GenerateOptions& o) {
  EVOQ_ASSIGN(auto grammar, FormOf(o.grammar, o.json_schema));
  return evoq::GenerateOptions{
      .max_tokens = o.max_tokens,
      .sampling = {o.temperature, o.top_k, o.top_p, o.min_p, o.repeat_penalty, o.seed},
      .stop = o.stop,
      .grammar = std::move(grammar),
      .beams = o.beams,
      .length_penalty = o.length_penalty,
      .ignore_end = o.ignore_end};
}

Generated Outer(evoq::Generated g) {
  return {std::move(g.text), std::move(g.tokens), static_cast<Ended>(g.ended),
          g.prompt_tokens,   g.prompt_ms,         g.decode_ms,
          g.host_ms,         g.drafted,           g.accepted};
}

Result<evoq::Request> RequestOf(const LanguageSession& session, const Prompt& prompt,
                                const GenerateOptions& options) {
  evoq::Request request;
  EVOQ_ASSIGN(request.options, Inner(options));
  if (!prompt.tokens.empty()) {
    request.prompt = prompt.tokens;
    return request;
  }
  EVOQ_ASSIGN(SourceText source,
              session.EncodeSource(prompt.text, {options.source_language, options.target_language},
                                   prompt.add_special));
  request.prompt = std::move(source.tokens);
  request.options.begin = std::move(source.begin);
  return request;
}

// What a chat template gets.
Result<nlohmann::ordered_json> VariablesOf(const std::vector<Message>& messages,
                                           const ChatOptions& o) {
  EVOQ_ASSIGN(nlohmann::ordered_json variables, JsonOf(o.variables, "the template's variables"));
  if (variables.is_null()) variables = nlohmann::ordered_json::object();
  if (!variables.is_object())
    return Fail(ErrorCode::kUsage, "the template's variables: expected a JSON object");
  EVOQ_ASSIGN(nlohmann::ordered_json tools, JsonOf(o.tools, "tools"));
  if (!tools.is_null() && !tools.is_array())
    return Fail(ErrorCode::kUsage, "tools: expected a JSON array");
  if (!tools.is_null()) variables["tools"] = std::move(tools);
  nlohmann::ordered_json& all = variables["messages"];
  if (all.is_null()) all = nlohmann::ordered_json::array();
  if (!all.is_array())
    return Fail(ErrorCode::kUsage, "the template's variables: messages are no JSON array");
  for (const Message& message : messages)
    all.push_back({{"role", message.role}, {"content", message.content}});
  if (!variables.contains("add_generation_prompt"))
    variables["add_generation_prompt"] = o.add_generation_prompt;
  return variables;
}

}  // namespace

const char* EndedName(Ended why) { return evoq::EndedName(static_cast<evoq::Ended>(why)); }

struct Model::Impl {
  std::unique_ptr<LanguageSession> session;
  Facts facts;
  std::atomic<bool> taken = false;  // by a call that has not ended
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

std::optional<Model> Model::Load(const std::string& path, const ModelOptions& o,
                                 std::string* error) {
  auto impl = Enter(error, [&]() -> Result<std::unique_ptr<Impl>> {
    auto made = std::make_unique<Impl>();
    EVOQ_ASSIGN(made->session, LanguageSession::Load(path, {o.threads, o.context, o.sequences,
                                                            o.tokenizer, o.draft, o.kv_cache}));
    const LanguageSession& s = *made->session;
    made->facts = {s.model().threads(), s.model().vocabulary(), s.model().context(),
                   s.model().slots(),   s.cache_bytes(),        s.ends(),
                   s.has_tokenizer(),   s.has_chat_template()};
    return made;
  });
  if (!impl) return std::nullopt;
  return Model(std::move(*impl));
}

const Facts& Model::facts() const { return impl_->facts; }

std::optional<std::vector<int64_t>> Model::Encode(const std::string& text, bool add_special,
                                                  std::string* error) const {
  return Enter(error, [&] { return impl_->session->Encode(text, add_special); });
}

std::optional<std::string> Model::Decode(const std::vector<int64_t>& tokens, bool special,
                                         std::string* error) const {
  return Enter(error, [&] { return impl_->session->Decode(tokens, special); });
}

std::optional<Prompt> Model::Chat(const std::vector<Message>& messages, const ChatOptions& options,
                                  std::string* error) const {
  return Enter(error, [&]() -> Result<Prompt> {
    EVOQ_ASSIGN(nlohmann::ordered_json variables, VariablesOf(messages, options));
    Prompt prompt;
    EVOQ_ASSIGN(prompt.text, impl_->session->Chat(std::move(variables)));
    prompt.add_special = false;
    return prompt;
  });
}

std::optional<Generated> Model::Generate(const Prompt& prompt, const GenerateOptions& options,
                                         const OnText& on_text, std::string* error) {
  return Enter(error, [&]() -> Result<Generated> {
    const Turn turn(impl_->taken);
    EVOQ_TRY(turn.Check("model"));
    EVOQ_ASSIGN(const evoq::Request request, RequestOf(*impl_->session, prompt, options));
    EVOQ_ASSIGN(evoq::Generated text,
                impl_->session->writer().Write(request.prompt, request.options, on_text));
    return Outer(std::move(text));
  });
}

std::optional<std::vector<Generated>> Model::GenerateMany(const std::vector<Request>& requests,
                                                          const OnTextOf& on_text,
                                                          std::string* error) {
  return Enter(error, [&]() -> Result<std::vector<Generated>> {
    const Turn turn(impl_->taken);
    EVOQ_TRY(turn.Check("model"));
    std::vector<evoq::Request> inner;
    for (const Request& request : requests) {
      EVOQ_ASSIGN(evoq::Request asked,
                  WithContext(RequestOf(*impl_->session, request.prompt, request.options),
                              fmt::format("request {}", inner.size())));
      inner.push_back(std::move(asked));
    }
    EVOQ_ASSIGN(std::vector<evoq::Generated> texts, impl_->session->GenerateMany(inner, on_text));
    std::vector<Generated> outer;
    for (evoq::Generated& text : texts) outer.push_back(Outer(std::move(text)));
    return outer;
  });
}

std::optional<std::vector<float>> Model::Logits(const std::vector<int64_t>& tokens, int64_t last,
                                                std::string* error) {
  return Enter(error, [&]() -> Result<std::vector<float>> {
    const Turn turn(impl_->taken);
    EVOQ_TRY(turn.Check("model"));
    EVOQ_ASSIGN(const std::span<const float> rows, impl_->session->writer().Logits(tokens, last));
    return std::vector<float>(rows.begin(), rows.end());
  });
}

const std::vector<int64_t>& Model::tokens() const { return impl_->session->writer().tokens(); }
void Model::Forget() { impl_->session->writer().Forget(); }

bool Model::Save(const std::string& path, std::string* error) const {
  return Done(error, [&]() -> Status {
    const Turn turn(impl_->taken);
    EVOQ_TRY(turn.Check("model"));
    return impl_->session->writer().Save(path);
  });
}

bool Model::Restore(const std::string& path, std::string* error) {
  return Done(error, [&]() -> Status {
    const Turn turn(impl_->taken);
    EVOQ_TRY(turn.Check("model"));
    return impl_->session->writer().Restore(path);
  });
}

}  // namespace v2
}  // namespace evoq::language
