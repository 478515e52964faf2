#include "generate/speech.h"

#include <algorithm>

#include "data/log_mel.h"

namespace evoq {
namespace {

Result<int64_t> PieceOf(const Tokenizer& tokenizer, const std::string& name, const char* what) {
  const auto found = tokenizer.Find("<|" + name + "|>");
  if (found && tokenizer.IsSpecial(*found)) return *found;
  return Fail(ErrorCode::kUsage, "the model's tokenizer knows no {} '{}'", what,
              name.substr(0, 60));
}

// Languages stand between what begins a text and the first task: <|en|>, <|yue|>.
bool NamesLanguage(std::string_view piece) {
  constexpr std::string_view kBegin = "<|", kEnd = "|>";
  if (!piece.starts_with(kBegin) || !piece.ends_with(kEnd)) return false;
  piece = piece.substr(kBegin.size(), piece.size() - kBegin.size() - kEnd.size());
  return (piece.size() == 2 || piece.size() == 3) &&
         std::ranges::all_of(piece, [](char c) { return c >= 'a' && c <= 'z'; });
}

Result<int64_t> LikeliestLanguage(const Tokenizer& tokenizer, std::span<const float> logits) {
  int64_t best = -1;
  const auto count = std::min<int64_t>(std::ssize(logits), tokenizer.size());
  for (int64_t id = 0; id < count; ++id) {
    if (!tokenizer.IsSpecial(id)) continue;
    EVOQ_ASSIGN(const std::string piece, tokenizer.Piece(id));
    if (NamesLanguage(piece) && (best < 0 || logits[id] > logits[best])) best = id;
  }
  if (best < 0) return Fail(ErrorCode::kUsage, "the model's tokenizer knows no languages");
  return best;
}

}  // namespace

Result<std::shared_ptr<const Tensor>> HeardOf(const CachedModel& model, const Sound& sound) {
  const AudioFacts& a = model.target().audio;
  if (!model.target().hears()) return Fail(ErrorCode::kUsage, "a sound: the model hears nothing");
  if (sound.rate != a.rate)
    return Fail(ErrorCode::kUsage, "a sound of {} samples in a second, expected {}", sound.rate,
                a.rate);
  if (sound.samples.empty()) return Fail(ErrorCode::kUsage, "a sound of no samples");
  const int64_t frames = 2 * model.source_context();
  if (std::ssize(sound.samples) > frames * a.hop)
    return Fail(ErrorCode::kUsage, "a sound of {:.1f} s, expected at most {:.1f}: cut it",
                static_cast<double>(sound.samples.size()) / static_cast<double>(a.rate),
                static_cast<double>(frames * a.hop) / static_cast<double>(a.rate));
  EVOQ_ASSIGN(
      Tensor features,
      LogMelOf(
          sound.samples,
          {.rate = a.rate, .window = a.window, .hop = a.hop, .bins = a.bins, .frames = frames}));
  return std::make_shared<const Tensor>(std::move(features));
}

Result<std::vector<int64_t>> SpeechBegin(const CachedModel& model, const Tokenizer& tokenizer,
                                         const SpeechTask& task,
                                         const std::shared_ptr<const Tensor>& sound,
                                         Writer& writer) {
  EVOQ_ASSIGN(const int64_t plain, PieceOf(tokenizer, "notimestamps", "piece"));
  if (!model.target().audio.names_language) {
    if (!task.language.empty() || !task.task.empty())
      return Fail(ErrorCode::kUsage, "a language or a task: the model knows one");
    return std::vector<int64_t>{plain};
  }
  EVOQ_ASSIGN(const int64_t doing,
              PieceOf(tokenizer, task.task.empty() ? "transcribe" : task.task, "task"));
  if (!task.language.empty()) {
    EVOQ_ASSIGN(const int64_t language, PieceOf(tokenizer, task.language, "language"));
    return std::vector<int64_t>{language, doing, plain};
  }
  EVOQ_ASSIGN(const std::span<const float> logits, writer.Beginning({{}, sound}));
  EVOQ_ASSIGN(const int64_t language, LikeliestLanguage(tokenizer, logits));
  return std::vector<int64_t>{language, doing, plain};
}

}  // namespace evoq
