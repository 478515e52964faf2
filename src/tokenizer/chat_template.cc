#include "tokenizer/chat_template.h"

#include "tokenizer/template/render.h"

namespace evoq {

constexpr size_t kMaxTemplateBytes = 1 << 20;

struct ChatTemplate::Tree {
  chat::Block block;
};

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    return Fail(ErrorCode::kTooLarge, "chat template: {} bytes, expected at most {}", source.size(),
                kMaxTemplateBytes);
  EVOQ_ASSIGN(chat::Block block, WithContext(chat::Parse(source), "chat template"));
  ChatTemplate parsed;
  parsed.tree_ = std::make_shared<const Tree>(Tree{std::move(block)});
  return parsed;
}

Result<std::string> ChatTemplate::Render(const nlohmann::ordered_json& variables) const {
  const chat::Value value = chat::FromJson(variables);
  if (value.dict() == nullptr)
    return Fail(ErrorCode::kUsage, "chat template: expected an object of variables");
  return WithContext(chat::Render(tree_->block, *value.dict()), "chat template");
}

Result<std::string> RenderChat(const Tokenizer& tokenizer, nlohmann::ordered_json variables) {
  if (!variables.is_object())
    return Fail(ErrorCode::kUsage, "a chat: expected an object with messages");
  const bool tools = variables.contains("tools") && !variables["tools"].is_null() &&
                     !tokenizer.tool_template().empty();
  const std::string& source = tools ? tokenizer.tool_template() : tokenizer.chat_template();
  if (source.empty()) return Unsupported("a chat: the tokenizer has no chat template");
  const auto add = [&](const char* name, int64_t id) -> Status {
    if (id < 0 || variables.contains(name)) return {};
    EVOQ_ASSIGN(variables[name], tokenizer.Piece(id));
    return {};
  };
  EVOQ_TRY(add("bos_token", tokenizer.begin()));
  EVOQ_TRY(add("eos_token", tokenizer.ends().empty() ? -1 : tokenizer.ends()[0]));
  EVOQ_ASSIGN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  return parsed.Render(variables);
}

}  // namespace evoq
