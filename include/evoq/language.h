// The C++ interface of evoq to language models: messages or a text in, text out.
//
//   std::string error;
//   auto model = evoq::language::Model::Load("qwen2.etm", {}, &error);
//   if (!model) { std::cerr << error; return 1; }
//   auto prompt = model->Chat({{"user", "Why is the sky blue?"}}, {}, &error);
//   auto show = [](std::string_view text) { std::cout << text << std::flush; return true; };
//   if (!prompt || !model->Generate(*prompt, {}, show, &error)) std::cerr << error;
//
// Needs C++17 and nothing of evoq's inner headers; libevoq has it, libevoq_runtime does not. As in
// evoq.h nothing throws, but for what the caller's own functions do: they must not throw. What can
// fail returns an empty result and says why in *error. What fails leaves the model usable. Only
// where a chat is rendered without a byte of memory left does the process end (docs/bad-input.md).
// docs/generate.md says what models these are, and what the options do.
//
// The names live in an inline namespace with the version's number. It changes when a struct gets
// another layout or a function another meaning: a program compiled for another version does not
// link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define EVOQ_LANGUAGE_VERSION 2

namespace evoq::language {
inline namespace v2 {

struct ModelOptions {
  int threads = 0;             // 0: one per physical core; at most 1024
  std::int64_t context = 0;    // tokens of a sequence; 0: what the model was made for, at most 4096
  std::int64_t sequences = 1;  // that GenerateMany runs at the same time, or beams; at most 256
  std::string tokenizer;       // its file or folder; "": the one that the model carries
  std::string draft;           // a smaller model of the same tokens, for Generate; "": none
  std::string kv_cache;        // what caches hold: "float32", "float16", "int8"; "": as the model
};

struct Facts {
  int threads = 0;
  std::int64_t vocabulary = 0;     // all tokens are below
  std::int64_t context = 0;        // tokens that a sequence may have
  std::int64_t sequences = 0;      // at the same time
  std::int64_t cache_bytes = 0;    // of all sequences, and of the draft's
  std::vector<std::int64_t> ends;  // tokens that end a text
  bool has_tokenizer = false;      // without one there are tokens and no text
  bool has_chat_template = false;
};

struct Message {
  std::string role, content;  // "system", "user", "assistant", ...
};
struct ChatOptions {
  bool add_generation_prompt = true;  // the text ends where the model is to answer
  std::string tools;                  // a JSON array of what it may call; "": none
  // A JSON object of whatever else the template asks for ("enable_thinking"); "": nothing. Its
  // "messages" stand in front of the others: for those that are more than a role and a content.
  std::string variables;
};

// What the model is to continue: a text, or tokens.
struct Prompt {
  std::string text;
  std::vector<std::int64_t> tokens;  // instead of a text, where there are any
  bool add_special = true;  // to the text, what the tokenizer puts around one; Chat's have it

  Prompt() = default;
  Prompt(const char* text) : text(text) {}
  Prompt(std::string text) : text(std::move(text)) {}
  Prompt(std::vector<std::int64_t> tokens) : tokens(std::move(tokens)) {}
};

struct GenerateOptions {
  std::int64_t max_tokens = 128;
  double temperature = 0;         // 0: always the likeliest token
  std::int64_t top_k = 0;         // draw from the likeliest of so many; 0: from all
  double top_p = 1;               // from the likeliest that together reach this share
  double min_p = 0;               // from those of at least this share of the likeliest one's
  double repeat_penalty = 1;      // above 1: tokens are less likely that are among the last 64
  std::uint64_t seed = 0;         // of the draws
  std::vector<std::string> stop;  // texts that end it; they are not part of it
  bool ignore_end = false;        // goes on behind the model's end tokens
  // What the text is of, one or none: a grammar in llama.cpp's GBNF; a JSON schema.
  std::string grammar, json_schema;
  // Beam search: so many texts are followed, and the likeliest is taken; at most facts().sequences,
  // and not of GenerateMany. Scores are divided by the length to the power of length_penalty (none:
  // what the model says, or 1).
  std::int64_t beams = 1;
  std::optional<double> length_penalty;
  // Of models that read one text and write another: "fra_Latn", "fr_XX", "fr"; "": what the model
  // takes by itself.
  std::string source_language, target_language;
};

enum class Ended { kEndToken, kStopText, kMaxTokens, kContext, kCaller };
const char* EndedName(Ended why);  // "end", "stop", "length", "context", "cancelled"

struct Generated {
  std::string text;
  std::vector<std::int64_t> tokens;  // without the one that ended it
  Ended ended = Ended::kMaxTokens;
  std::int64_t prompt_tokens = 0;          // that were run: without those that the cache had
  double prompt_ms = 0;                    // until the first token was chosen
  double decode_ms = 0;                    // of all tokens behind the first
  double host_ms = 0;                      // of decode_ms, what passed outside of the models
  std::int64_t drafted = 0, accepted = 0;  // tokens of the draft, and those that were kept
};

struct Request {
  Prompt prompt;
  GenerateOptions options;
};

// Gets each piece of text as its characters are complete, on the thread of the call; false: the
// text ends there. May be null.
using OnText = std::function<bool(std::string_view text)>;
using OnTextOf = std::function<bool(std::size_t request, std::string_view text)>;

// A language model and a sequence of tokens whose keys and values it keeps: what the next prompt
// has in common with them is not run again, so a conversation costs what is new of it.
//
// One call at a time, but for facts, Encode, Decode and Chat, which any number of threads may call
// at any time, also in OnText, where no other function may be called. Several models may run at
// once.
class Model {
 public:
  // A .etm, a folder of Hugging Face's, a GGUF file, llama2.c's .bin, or an .onnx with caches.
  static std::optional<Model> Load(const std::string& path, const ModelOptions& options = {},
                                   std::string* error = nullptr);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const Facts& facts() const;

  // Text to tokens. `add_special`: with what the tokenizer puts around a text. Special pieces that
  // stand in the text ("<|im_end|>") are those tokens.
  std::optional<std::vector<std::int64_t>> Encode(const std::string& text, bool add_special = true,
                                                  std::string* error = nullptr) const;
  // Tokens to bytes, which need not be whole characters. `special`: with special pieces.
  std::optional<std::string> Decode(const std::vector<std::int64_t>& tokens, bool special = false,
                                    std::string* error = nullptr) const;
  // The prompt that the model's chat template makes of messages; its text is there to be read.
  std::optional<Prompt> Chat(const std::vector<Message>& messages, const ChatOptions& options = {},
                             std::string* error = nullptr) const;

  std::optional<Generated> Generate(const Prompt& prompt, const GenerateOptions& options = {},
                                    const OnText& on_text = nullptr, std::string* error = nullptr);
  // All of them, facts().sequences at a time; each result is what Generate alone would give
  // (docs/generate.md). Takes no draft, and the kept sequence is empty afterwards.
  std::optional<std::vector<Generated>> GenerateMany(const std::vector<Request>& requests,
                                                     const OnTextOf& on_text = nullptr,
                                                     std::string* error = nullptr);

  // The kept sequence becomes these tokens. The logits [last, facts().vocabulary] behind each of
  // the last so many of them: row i belongs to what follows token tokens.size() - last + i.
  std::optional<std::vector<float>> Logits(const std::vector<std::int64_t>& tokens,
                                           std::int64_t last = 1, std::string* error = nullptr);

  // The kept sequence.
  const std::vector<std::int64_t>& tokens() const;
  void Forget();
  // To a file and from one. A file of another model is refused.
  bool Save(const std::string& path, std::string* error = nullptr) const;
  bool Restore(const std::string& path, std::string* error = nullptr);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace v2
}  // namespace evoq::language
