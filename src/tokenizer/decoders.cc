#include "base/json_file.h"
#include "tokenizer/rules.h"
#include "tokenizer/steps.h"
#include "tokenizer/vocabulary.h"

namespace evoq {
namespace {

using nlohmann::json;

Result<DecodeSteps> One(PieceStep step) { return DecodeSteps{.steps = {std::move(step)}}; }

Result<DecodeSteps> ReadByteLevel(const json&) { return One(DecodeByteLevel()); }
Result<DecodeSteps> ReadByteFallback(const json&) { return One(DecodeBytes()); }

// All pieces are one text anyway; what follows is of the whole text.
Result<DecodeSteps> ReadFuse(const json&) { return DecodeSteps(); }

Result<DecodeSteps> ReadReplace(const json& j) {
  EVOQ_ASSIGN(const std::string content, NeedText(j, "content"));
  const std::string literal = JsonText(JsonMember(j, "pattern"), "String");
  if (literal.empty()) return Unsupported("a decoder's pattern that is no String");
  return One(ReplaceInPiece(literal, content));
}

Result<DecodeSteps> ReadMetaspace(const json& j) {
  std::string mark = JsonText(j, "replacement");
  if (mark.empty()) mark = kMetaspace;
  std::string scheme = JsonText(j, "prepend_scheme");
  if (scheme.empty()) scheme = JsonFlag(j, "add_prefix_space", true) ? "always" : "never";
  return One([mark, drop = scheme != "never"](std::string& piece, bool first) {
    ReplaceAll(piece, mark, first && drop ? "" : " ");
  });
}

// What BERT's tokens leave between words and punctuation.
void CleanUp(std::string& text) {
  struct Row {
    const char *from, *to;
  };
  constexpr Row kRows[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const Row& row : kRows) ReplaceAll(text, row.from, row.to);
}

Result<DecodeSteps> ReadWordPiece(const json& j) {
  EVOQ_ASSIGN(const std::string prefix, NeedText(j, "prefix"));
  const bool cleanup = JsonFlag(j, "cleanup", true);
  return One([=](std::string& piece, bool first) {
    if (!first) {
      if (piece.starts_with(prefix))
        piece.erase(0, prefix.size());
      else
        piece.insert(0, 1, ' ');
    }
    if (cleanup) CleanUp(piece);
  });
}

Result<DecodeSteps> ReadStrip(const json& j) {
  EVOQ_ASSIGN(const std::string content, NeedText(j, "content"));
  if (JsonNumber(j, "stop") != 0) return Unsupported("a Strip at the end (stop is not 0)");
  const double start = JsonNumber(j, "start");
  if (content.empty() || !(start >= 0 && start <= 1 << 20))
    return InvalidInput("expected a content, and a start from 0 to {}", 1 << 20);
  return DecodeSteps{.strip = content, .strip_count = static_cast<int64_t>(start)};
}

Result<DecodeSteps> ReadWordEnds(const json& j) {
  DecodeSteps steps;
  steps.word_end = JsonText(j, "suffix");
  if (steps.word_end.empty()) return InvalidInput("expected a suffix");
  return steps;
}

Result<DecodeSteps> ReadSequence(const json& j);

constexpr ReadRow<DecodeSteps> kRows[] = {
    {"ByteLevel", ReadByteLevel}, {"ByteFallback", ReadByteFallback}, {"Fuse", ReadFuse},
    {"Replace", ReadReplace},     {"Metaspace", ReadMetaspace},       {"WordPiece", ReadWordPiece},
    {"Strip", ReadStrip},         {"BPEDecoder", ReadWordEnds},       {"Sequence", ReadSequence},
};

// A step of pieces after one of the whole text would see another text than it did.
Result<DecodeSteps> ReadSequence(const json& j) {
  DecodeSteps all;
  bool fused = false;
  for (const json& step : JsonArray(j, "decoders")) {
    EVOQ_ASSIGN(DecodeSteps read, ReadStep<DecodeSteps>(kRows, step, "decoders"));
    const std::string type = JsonText(step, "type");
    if (!read.word_end.empty()) {
      if (fused || !all.steps.empty() || !all.word_end.empty())
        return Unsupported("the decoder BPEDecoder after others");
      all.word_end = read.word_end;
    } else if (read.strip_count > 0) {
      if (!fused) return Unsupported("a Strip of each piece (no Fuse before it)");
      if (all.strip_count > 0) return Unsupported("two decoders Strip");
      all.strip = read.strip;
      all.strip_count = read.strip_count;
    } else if (fused && !read.steps.empty()) {
      return Unsupported("the decoder {} after Fuse", type);
    }
    fused = fused || type == "Fuse";
    for (PieceStep& piece_step : read.steps) all.steps.push_back(std::move(piece_step));
  }
  return all;
}

}  // namespace

PieceStep ReplaceInPiece(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string& piece, bool) {
    ReplaceAll(piece, from, to);
  };
}

PieceStep DecodeBytes() {
  return [](std::string& piece, bool) {
    if (const int byte = ByteOfPiece(piece); byte >= 0) piece.assign(1, static_cast<char>(byte));
  };
}

Result<DecodeSteps> ReadDecoder(const json& decoder) {
  if (decoder.is_null()) {  // pieces are words
    return One([](std::string& piece, bool first) {
      if (!first) piece.insert(0, 1, ' ');
    });
  }
  return ReadStep<DecodeSteps>(kRows, decoder, "decoder");
}

}  // namespace evoq
