// Operators on strings: StringConcat, StringNormalizer, StringSplit, TfIdfVectorizer. Strings are
// UTF-8.
#include "ops/strings.h"

#include <locale.h>

#include <algorithm>

#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

Status CheckStrings(const InferArgs& args, size_t i) {
  return CheckDType(args, i, std::array{DType::kString});
}

// ---- StringConcat(a, b)

InferResult InferConcat(const InferArgs& args) {
  for (size_t i : {0, 1}) EVOQ_TRY(CheckStrings(args, i));
  return BroadcastInputs(args);
}

// ---- StringNormalizer(x [C] or [1, C])

InferResult InferNormalizer(const InferArgs& args) {
  EVOQ_TRY(CheckStrings(args, 0));
  EVOQ_ASSIGN(const std::string action, StringAttr(args.node, "case_change_action", "NONE"));
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return InvalidInput("attribute case_change_action is '{}', expected NONE, LOWER or UPPER",
                        action);
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked()) return SameAsInput0(args);
  if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x[0].known() && x[0].value != 1))
    return InvalidInput("input 0 is {}, expected [C] or [1, C]", x.ToString());
  std::vector<Dim> dims(static_cast<size_t>(x.rank()));
  if (x.rank() == 2) dims[0] = Dim(1);
  return std::vector<TensorType>{TensorType(DType::kString, Shape(std::move(dims)))};
}

// ---- StringSplit(x) -> parts [x..., most parts] filled up with empty strings, and how many there
// are of each. Without a delimiter at white space; at most `maxsplit` times.

InferResult InferSplit(const InferArgs& args) {
  EVOQ_TRY(CheckStrings(args, 0));
  EVOQ_TRY(StringAttr(args.node, "delimiter", ""));
  EVOQ_TRY(IntAttr(args.node, "maxsplit", 0));
  Shape shape = args.inputs[0].shape;
  if (shape.ranked()) shape.mutable_dims().emplace_back();
  return std::vector<TensorType>{TensorType(DType::kString, shape),
                                 TensorType(DType::kInt64, args.inputs[0].shape)};
}

// ---- TfIdfVectorizer(x [C] or [N, C])

}  // namespace

Result<TfIdfGrams> TfIdfGramsOf(const Node& node) {
  TfIdfGrams g;
  EVOQ_ASSIGN(g.shortest, IntAttr(node, "min_gram_length", 1));
  EVOQ_ASSIGN(g.longest, IntAttr(node, "max_gram_length", 1));
  EVOQ_ASSIGN(g.skips, IntAttr(node, "max_skip_count", 0));
  EVOQ_ASSIGN(const std::vector<int64_t> indexes, IntsAttr(node, "ngram_indexes"));
  EVOQ_ASSIGN(const std::vector<int64_t> starts, IntsAttr(node, "ngram_counts"));
  EVOQ_ASSIGN(std::vector<int64_t> pool, IntsAttr(node, "pool_int64s"));
  const std::string mode = node.attrs.String("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return InvalidInput("attribute mode is '{}', expected TF, IDF or TFIDF", mode);
  if (g.shortest < 1 || g.longest < g.shortest || g.longest > 1024 || g.skips < 0)
    return InvalidInput("n-grams of {} to {} tokens with {} skips", g.shortest, g.longest, g.skips);
  for (const std::string& s : node.attrs.Strings("pool_strings"))
    pool.push_back(g.tokens.emplace(s, static_cast<int64_t>(g.tokens.size())).first->second);
  for (int64_t index : indexes) {
    if (index < 0 || index >= int64_t{1} << 26)
      return InvalidInput("attribute ngram_indexes has {}", index);
    g.width = std::max(g.width, index + 1);
  }
  size_t gram = 0;
  for (size_t n = 0; n < starts.size(); ++n) {
    const int64_t begin = starts[n],
                  end = n + 1 < starts.size() ? starts[n + 1] : static_cast<int64_t>(pool.size());
    const int64_t size = static_cast<int64_t>(n) + 1;
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) ||
        (end - begin) % size != 0)
      return InvalidInput("attribute ngram_counts does not fit a pool of {} tokens", pool.size());
    for (int64_t at = begin; at < end; at += size, ++gram) {
      if (gram >= indexes.size())
        return InvalidInput("attribute ngram_indexes has {} numbers, fewer than n-grams",
                            indexes.size());
      if (size >= g.shortest && size <= g.longest)
        g.columns[std::vector<int64_t>(pool.begin() + at, pool.begin() + at + size)] =
            indexes[gram];
    }
  }
  return g;
}

namespace {

InferResult InferTfIdf(const InferArgs& args) {
  EVOQ_ASSIGN(const TfIdfGrams grams, TfIdfGramsOf(args.node));
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kString, DType::kInt32, DType::kInt64}));
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked())
    return std::vector<TensorType>{TensorType(DType::kFloat32, Shape::UnknownRank())};
  if (x.rank() > 2) return InvalidInput("input 0 is {}, expected [C] or [N, C]", x.ToString());
  std::vector<Dim> dims = {Dim(grams.width)};
  if (x.rank() == 2) dims.insert(dims.begin(), x[0]);
  return std::vector<TensorType>{TensorType(DType::kFloat32, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kStringConcat = {.name = "StringConcat",
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .strings = Strings::kOwn,
                                    .infer = InferConcat};
extern const OpDef kStringNormalizer = {
    .name = "StringNormalizer", .strings = Strings::kOwn, .infer = InferNormalizer};
extern const OpDef kStringSplit = {
    .name = "StringSplit", .outputs = 2, .strings = Strings::kOwn, .infer = InferSplit};
extern const OpDef kTfIdfVectorizer = {
    .name = "TfIdfVectorizer", .strings = Strings::kOwn, .infer = InferTfIdf};

}  // namespace evoq
