#include "tokenizer/pair.h"

#include <algorithm>

#include "base/brief.h"
#include "base/json_file.h"

namespace evoq {
namespace {

using nlohmann::json;
using Kind = PairTemplate::Kind;

Result<int64_t> NumberOf(const json& value, const char* what) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (value.is_number_integer() && value >= 0 && value < kMost) return value.get<int64_t>();
  return InvalidInput("post_processor: {} is {}, expected a number", what, JsonBriefly(value));
}

// The number of a special piece by its name.
Result<int64_t> PieceOf(const json& processor, const std::string& name) {
  const json pieces = processor.value("special_tokens", json());
  if (pieces.is_object() && pieces.contains(name)) {
    const json& ids = JsonArray(pieces[name], "ids");
    if (ids.size() == 1) return NumberOf(ids[0], "a special token");
  }
  return InvalidInput("post_processor: special token '{}' is no piece", Shorten(name));
}

Result<PairTemplate> OfTemplate(const json& processor) {
  PairTemplate pair;
  for (const json& part : JsonArray(processor, "pair")) {
    const bool text = part.is_object() && part.contains("Sequence");
    const char* const key = text ? "Sequence" : "SpecialToken";
    if (!part.is_object() || !part.contains(key) || !part[key].is_object())
      return InvalidInput("post_processor: pair holds {}", JsonBriefly(part));
    const std::string id = JsonText(part[key], "id");
    EVOQ_ASSIGN(const int64_t type, NumberOf(part[key].value("type_id", json(0)), "type_id"));
    PairTemplate::Part one{id == "A" ? Kind::kFirst : Kind::kSecond, 0, type};
    if (!text) {
      one.kind = Kind::kPiece;
      EVOQ_ASSIGN(one.piece, PieceOf(processor, id));
    }
    pair.parts.push_back(one);
  }
  return pair;
}

// ["[SEP]", 102]
Result<int64_t> NamedPiece(const json& processor, const char* key) {
  const json& both = JsonArray(processor, key);
  if (both.size() != 2) return InvalidInput("post_processor: {} is no piece", key);
  return NumberOf(both[1], key);
}

Result<PairTemplate> OfBert(const json& processor, bool roberta) {
  EVOQ_ASSIGN(const int64_t begin, NamedPiece(processor, "cls"));
  EVOQ_ASSIGN(const int64_t end, NamedPiece(processor, "sep"));
  const int64_t second = roberta ? 0 : 1;
  PairTemplate pair;
  pair.parts = {{Kind::kPiece, begin, 0}, {Kind::kFirst, 0, 0}, {Kind::kPiece, end, 0}};
  if (roberta) pair.parts.push_back({Kind::kPiece, end, 0});
  pair.parts.push_back({Kind::kSecond, 0, second});
  pair.parts.push_back({Kind::kPiece, end, second});
  return pair;
}

Result<PairTemplate> Of(const json& processor) {
  const std::string type = JsonText(processor, "type");
  if (type == "TemplateProcessing") return OfTemplate(processor);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return OfBert(processor, type == "RobertaProcessing");
  for (const json& one : JsonArray(processor, "processors")) {
    EVOQ_ASSIGN(PairTemplate pair, Of(one));
    if (!pair.parts.empty()) return pair;
  }
  return PairTemplate();
}

}  // namespace

Result<PairTemplate> ReadPairTemplate(std::string_view tokenizer_json) {
  EVOQ_ASSIGN(const json file, ParseJson(tokenizer_json));
  PairTemplate pair;
  if (file.is_object() && file.contains("post_processor")) {
    EVOQ_ASSIGN(pair, Of(file["post_processor"]));
  }
  const auto count = [&](Kind kind) {
    return std::ranges::count(pair.parts, kind, &PairTemplate::Part::kind);
  };
  if (count(Kind::kFirst) != 1 || count(Kind::kSecond) != 1)
    return Unsupported("the tokenizer does not say how two texts stand together");
  return pair;
}

}  // namespace evoq
