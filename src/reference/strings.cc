// Operators on strings: StringConcat, StringNormalizer, StringSplit, TfIdfVectorizer. Strings are
// UTF-8.
#include "ops/strings.h"

#include <locale.h>

#include <algorithm>
#include <cwctype>

#include "base/budget_scope.h"
#include "base/math.h"
#include "base/text.h"
#include "reference/broadcast.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- StringConcat(a, b)

// What the result holds besides its strings' own objects, which the driver counts.
Status SpendOnCharacters(int64_t characters) {
  EVOQ_TRY(SpendMemory(characters, "the strings"));
  return SpendWork(characters, "the strings");
}

int64_t Characters(const Tensor& strings) {
  int64_t count = 0;
  for (const std::string& s : strings.values<std::string>())
    count += static_cast<int64_t>(s.size());
  return count;
}

EvalResult EvaluateConcat(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  const int64_t count = args.output_types[0].shape.elements().value_or(0);
  for (const Tensor* t : {&a, &b}) {  // each string comes as often as broadcasting repeats it
    if (t->elements() > 0)
      EVOQ_TRY(SpendOnCharacters(CheckedMul(Characters(*t), count / t->elements()).value_or(-1)));
  }
  EVOQ_ASSIGN(Tensor y, (BroadcastMap<std::string, std::string>(
                            a, b, DType::kString,
                            [](const std::string& a, const std::string& b) { return a + b; })));
  return One(std::move(y));
}

// ---- StringNormalizer(x [C] or [1, C]): drops stop words, changes the case of the rest; at least
// one (empty) string is left.

std::string ChangedCase(const std::string& text, bool upper) {
  static const locale_t kUtf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = Utf8At(text, i);
    if (!character.valid) {  // passes as it is
      out += text[i++];
      continue;
    }
    i += character.bytes;
    wint_t code = character.code;
    if (character.bytes == 1) {
      code = static_cast<wint_t>(upper ? (code >= 'a' && code <= 'z' ? code - 32 : code)
                                       : (code >= 'A' && code <= 'Z' ? code + 32 : code));
    } else if (kUtf8 != nullptr) {
      code = upper ? towupper_l(code, kUtf8) : towlower_l(code, kUtf8);
    }
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      constexpr wint_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
      out += static_cast<char>(kLead[more] | (code >> (6 * more)));
      for (int k = more - 1; k >= 0; --k)
        out += static_cast<char>(0x80 | ((code >> (6 * k)) & 0x3f));
    }
  }
  return out;
}

EvalResult EvaluateNormalizer(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const Attrs& attrs = args.node.attrs;
  const std::string action = attrs.String("case_change_action", "NONE");
  const bool sensitive = attrs.Int("is_case_sensitive", 0) != 0;
  const auto folded = [&](const std::string& s) { return sensitive ? s : ChangedCase(s, false); };
  EVOQ_TRY(SpendWork({x.elements(), static_cast<int64_t>(attrs.Strings("stopwords").size()) + 1},
                     "comparing with stop words"));
  EVOQ_TRY(SpendOnCharacters(Characters(x) * 4));
  std::vector<std::string> stops, kept;
  for (const std::string& s : attrs.Strings("stopwords")) stops.push_back(folded(s));
  for (const std::string& s : x.values<std::string>()) {
    if (std::find(stops.begin(), stops.end(), folded(s)) != stops.end()) continue;
    kept.push_back(action == "NONE" ? s : ChangedCase(s, action == "UPPER"));
  }
  if (kept.empty()) kept.emplace_back();
  const int64_t count = static_cast<int64_t>(kept.size());
  return One(Tensor::FromValues(x.shape().rank() == 2 ? Shape{1, count} : Shape{count}, kept));
}

// ---- StringSplit(x) -> parts [x..., most parts] filled up with empty strings, and how many there
// are of each. Without a delimiter at white space; at most `maxsplit` times.

std::vector<std::string> Parts(const std::string& text, const std::string& delimiter,
                               int64_t most) {
  std::vector<std::string> parts;
  const char* const spaces = " \t\n\v\f\r";
  const bool white = delimiter.empty();
  size_t at = white ? text.find_first_not_of(spaces) : 0;
  while (at != std::string::npos) {
    const size_t end = white ? text.find_first_of(spaces, at) : text.find(delimiter, at);
    if (end == std::string::npos || static_cast<int64_t>(parts.size()) >= most) {
      std::string rest = text.substr(at);
      if (white) rest.erase(rest.find_last_not_of(spaces) + 1);
      parts.push_back(std::move(rest));
      break;
    }
    parts.push_back(text.substr(at, end - at));
    at = white ? text.find_first_not_of(spaces, end) : end + delimiter.size();
  }
  return parts;
}

EvalResult EvaluateSplit(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const std::string delimiter = args.node.attrs.String("delimiter");
  const int64_t most = args.node.attrs.Has("maxsplit") ? args.node.attrs.Int("maxsplit")
                                                       : std::numeric_limits<int64_t>::max();
  // A part may be empty: as many strings as characters.
  EVOQ_TRY(SpendOnCharacters(Characters(x) * 40));
  Tensor counts = Tensor::Allocate(TensorType(DType::kInt64, x.shape()));
  std::vector<std::vector<std::string>> parts;
  size_t longest = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    parts.push_back(Parts(x.data<std::string>()[i], delimiter, most));
    counts.mutable_data<int64_t>()[i] = static_cast<int64_t>(parts.back().size());
    longest = std::max(longest, parts.back().size());
  }
  std::vector<int64_t> sizes = x.sizes();
  sizes.push_back(static_cast<int64_t>(longest));
  EVOQ_TRY(SpendMemory(TensorType(DType::kString, Shape(sizes)).bytes().value_or(-1), "the parts"));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(TensorType(DType::kString, Shape(sizes))));
  for (size_t i = 0; i < parts.size(); ++i)
    std::copy(parts[i].begin(), parts[i].end(), y.mutable_data<std::string>() + i * longest);
  return std::vector<Tensor>{std::move(y), std::move(counts)};
}

// ---- TfIdfVectorizer(x [C] or [N, C]): counts the pool's n-grams of min_gram_length to
// max_gram_length tokens with up to max_skip_count tokens between two of them; mode IDF gives the
// weight of those that occur, TFIDF weight times count.

EvalResult EvaluateTfIdf(const EvalArgs& args) {
  EVOQ_ASSIGN(const TfIdfGrams grams, TfIdfGramsOf(args.node));
  const Tensor& x = args.inputs[0];
  const int64_t rows = x.shape().rank() == 2 ? x.sizes()[0] : 1,
                length = rows == 0 ? 0 : x.elements() / rows;
  std::vector<int64_t> tokens;
  if (x.dtype() == DType::kString) {
    for (const std::string& s : x.values<std::string>()) {
      const auto found = grams.tokens.find(s);
      tokens.push_back(found == grams.tokens.end() ? -1 : found->second);
    }
  } else {
    EVOQ_ASSIGN(tokens, ToInt64s(x));
  }
  EVOQ_TRY(SpendWork({rows, length + 1, std::min(grams.skips, length) + 1,
                      grams.longest - grams.shortest + 1, grams.longest, 8},
                     "counting n-grams"));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(args.output_types[0]));
  float* counts = y.mutable_data<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t size = grams.shortest; size <= grams.longest; ++size) {
      const int64_t steps = size == 1 ? 1 : std::min(grams.skips, length) + 1;
      for (int64_t step = 1; step <= steps && step * (size - 1) < length; ++step) {
        for (int64_t start = 0; start + step * (size - 1) < length; ++start) {
          std::vector<int64_t> gram;
          for (int64_t k = 0; k < size; ++k)
            gram.push_back(tokens[row * length + start + k * step]);
          const auto found = grams.columns.find(gram);
          if (found != grams.columns.end()) counts[row * grams.width + found->second] += 1;
        }
      }
    }
  }
  const std::string mode = args.node.attrs.String("mode");
  const std::vector<float> weights = args.node.attrs.Floats("weights");
  if (!weights.empty() && static_cast<int64_t>(weights.size()) < grams.width)
    return InvalidInput("{} weights, expected {}", weights.size(), grams.width);
  for (int64_t i = 0; i < y.elements() && mode != "TF"; ++i) {
    const float weight = weights.empty() ? 1.0f : weights[i % grams.width];
    counts[i] = mode == "IDF" ? (counts[i] > 0 ? weight : 0.0f) : counts[i] * weight;
  }
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kStringConcat = {.name = "StringConcat", .evaluate = EvaluateConcat};
extern const Definition kStringNormalizer = {.name = "StringNormalizer",
                                             .evaluate = EvaluateNormalizer};
extern const Definition kStringSplit = {.name = "StringSplit", .evaluate = EvaluateSplit};
extern const Definition kTfIdfVectorizer = {.name = "TfIdfVectorizer", .evaluate = EvaluateTfIdf};

}  // namespace reference
}  // namespace evoq
