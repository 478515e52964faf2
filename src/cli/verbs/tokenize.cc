#include "base/file.h"
#include "base/json_file.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "generate/model_tokenizer.h"
#include "tokenizer/chat_template.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string tokenizer, text, lines, chat;
  bool decode = false, plain = false;
};

Result<std::vector<int64_t>> IdsOf(const json& line) {
  std::vector<int64_t> ids;
  for (const json& id : line) {
    if (!id.is_number_integer()) return InvalidInput("expected a list of token ids");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

// What a line of the file becomes.
Result<json> Converted(const Options& o, const Tokenizer& tokenizer, std::string_view line) {
  EVOQ_ASSIGN(const json value, ParseJson(line));
  if (o.decode) {
    if (!value.is_array()) return InvalidInput("expected a list of token ids");
    EVOQ_ASSIGN(const std::vector<int64_t> ids, IdsOf(value));
    EVOQ_ASSIGN(const std::string text, tokenizer.Decode(ids, /*special=*/!o.plain));
    return json(text);
  }
  if (!value.is_string()) return InvalidInput("expected a JSON string");
  EVOQ_ASSIGN(const std::vector<int64_t> ids,
              tokenizer.Encode(value.get<std::string>(), {.add_special = !o.plain}));
  return json(ids);
}

// All ASCII; bytes of a text that are no UTF-8 are U+FFFD.
std::string Line(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

Result<json> RunLines(const Options& o, const Tokenizer& tokenizer) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(o.lines));
  json out = json::array();
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    EVOQ_ASSIGN(json converted, WithContext(Converted(o, tokenizer, line),
                                            fmt::format("{}: line {}", o.lines, ++number)));
    Out("{}\n", Line(converted));
    out.push_back(std::move(converted));
  }
  return out;
}

// The text of a chat, and its pieces.
Result<json> RunChat(const Options& o, const Tokenizer& tokenizer) {
  EVOQ_ASSIGN(const std::string file, ReadTextFile(o.chat));
  EVOQ_TRY(WithContext(ParseJson(file), o.chat));  // of bounded depth
  EVOQ_ASSIGN(const std::string text,
              WithContext(RenderChat(tokenizer, nlohmann::ordered_json::parse(file)), o.chat));
  EVOQ_ASSIGN(const std::vector<int64_t> ids, tokenizer.Encode(text, {.add_special = false}));
  Out("{}\n", Lines{text});
  return json{{"tokenizer", o.tokenizer}, {"text", text}, {"ids", ids}};
}

Result<json> RunText(const Options& o, const Tokenizer& tokenizer) {
  EVOQ_ASSIGN(const std::vector<int64_t> ids, tokenizer.Encode(o.text, {.add_special = !o.plain}));
  json pieces = json::array();
  for (const int64_t id : ids) {
    EVOQ_ASSIGN(const std::string piece, tokenizer.Piece(id));
    Out("{:>8}  {}\n", id, piece);
    pieces.push_back(piece);
  }
  return json{{"tokenizer", o.tokenizer}, {"ids", ids}, {"pieces", pieces}};
}

VerbRun Declare(const VerbOptions& options, const CommonOptions&) {
  auto o = std::make_shared<Options>();
  options
      .Add("tokenizer", o->tokenizer,
           "tokenizer.json, SentencePiece .model or .vocab, GPT-2's vocab.json, llama2.c .bin, a "
           "folder with one, or a model that carries one: GGUF, .etm")
      .Required();
  options.Add("text", o->text, "The text whose tokens are listed");
  options.Add(
      "--lines", o->lines,
      "Instead of a text: a file of JSON strings, one a line; prints a line of token ids for "
      "each");
  options.AddFlag("--decode", o->decode, "Lines are lists of token ids, which become JSON strings");
  options.Add(
      "--chat", o->chat,
      "Instead of a text: a JSON file {messages: [{role, content}, ...], ...}; prints it as "
      "the chat template does");
  options.AddFlag("--plain", o->plain, "Without the special tokens around a text");
  return [o]() -> Result<json> {
    if (o->decode && o->lines.empty())
      return Fail(ErrorCode::kUsage, "--decode needs --lines FILE");
    if (!o->lines.empty() + !o->text.empty() + !o->chat.empty() > 1)
      return Fail(ErrorCode::kUsage, "expected one of a text, --lines and --chat");
    EVOQ_ASSIGN(const Tokenizer tokenizer, LoadTokenizer(o->tokenizer));
    if (!o->chat.empty()) return RunChat(*o, tokenizer);
    return o->lines.empty() ? RunText(*o, tokenizer) : RunLines(*o, tokenizer);
  };
}

}  // namespace

extern const VerbDef kVerbTokenize = {
    .name = "tokenize",
    .doc = "Turns text into token ids and back.",
    .example = "evoq tokenize tokenizer.json \"Hello world\"",
    .declare = Declare,
};

}  // namespace evoq
