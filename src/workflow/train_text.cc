#include "workflow/train_text.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "data/npy.h"
#include "tokenizer/tokenizer.h"

namespace evoq {
namespace {

// GPT-2's letters for bytes: printable ones are themselves, the others follow 255 in order.
std::string LetterOf(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// The tokenizer.json whose tokens are bytes.
std::string ByteTokenizer() {
  using nlohmann::json;
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[LetterOf(byte)] = byte;
  const json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  const json whole = {{"version", "1.0"},
                      {"added_tokens", json::array()},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", bytes},
                      {"post_processor", nullptr},
                      {"decoder", bytes},
                      {"model",
                       {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", nullptr},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", false},
                        {"vocab", vocabulary},
                        {"merges", json::array()}}}};
  return whole.dump();
}

// The tokens of one file.
Result<std::vector<int64_t>> TokensOf(const std::string& path, const Tokenizer& tokenizer) {
  if (LowerExtension(path) == ".npy") {
    EVOQ_ASSIGN(const Tensor numbers, ReadNpy(path));
    if (numbers.shape().rank() != 1)
      return InvalidInput("{}: {}, expected one row of token numbers", path,
                          numbers.type().ToString());
    return WithContext(ToInt64s(numbers), path);
  }
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  return WithContext(tokenizer.Encode(text), path);
}

DType TokenType(const Graph& graph) { return graph.value(graph.inputs()[0]).type.dtype; }

}  // namespace

bool TakesTokens(const Graph& graph) {
  if (graph.inputs().size() != 1) return false;
  const TensorType& type = graph.value(graph.inputs()[0]).type;
  return (type.dtype == DType::kInt64 || type.dtype == DType::kInt32) && type.shape.ranked() &&
         type.shape.rank() == 2;
}

Result<TextSamples> ReadTexts(const TrainJob& job, const SampleFiles& files, const Graph& graph,
                              const Follow& follow) {
  if (!job.files.labels.empty() || !job.files.test_labels.empty())
    return Fail(ErrorCode::kUsage, "--labels: the labels of a text are its own next tokens");
  if (!(job.hold_out >= 0 && job.hold_out <= 0.9))
    return Fail(ErrorCode::kUsage, "--hold-out {}: expected a number from 0 to 0.9", job.hold_out);
  EVOQ_TRY(follow.At("reading text", 0));
  TextSamples out;
  Tokenizer tokenizer;
  if (job.tokenizer.empty()) {
    out.tokenizer = ByteTokenizer();
    EVOQ_ASSIGN(tokenizer, Tokenizer::FromFiles({{"tokenizer.json", out.tokenizer}}));
  } else {
    EVOQ_ASSIGN(tokenizer, Tokenizer::Load(job.tokenizer));
  }
  const Dim& length = graph.value(graph.inputs()[0]).type.shape[1];
  const int64_t context = length.known() ? length.value : job.recipe.context;
  EVOQ_ASSIGN(const std::vector<int64_t> tokens, TokensOf(files.data, tokenizer));
  const bool numbers = LowerExtension(files.data) == ".npy";
  if (numbers) out.tokenizer.clear();
  out.pieces = numbers && job.tokenizer.empty() && !tokens.empty()
                   ? 1 + *std::max_element(tokens.begin(), tokens.end())
                   : tokenizer.size();
  const auto all = static_cast<int64_t>(tokens.size());
  const int64_t held =
      files.test.empty() ? static_cast<int64_t>(job.hold_out * static_cast<double>(all)) : 0;
  const std::span<const int64_t> stream(tokens);
  const DType dtype = TokenType(graph);
  const auto windows = [&](std::span<const int64_t> part, const std::string& name) {
    return WithContext(WindowsOf(part, context, dtype), name);
  };
  int64_t used = all - held;
  if (job.limit > 0) used = std::min(used, job.limit * context + 1);
  EVOQ_ASSIGN(out.train, windows(stream.subspan(0, static_cast<size_t>(used)), files.data));
  if (!files.test.empty()) {
    EVOQ_ASSIGN(const std::vector<int64_t> test, TokensOf(files.test, tokenizer));
    EVOQ_ASSIGN(out.test, windows(test, files.test));
  } else if (held > context) {
    EVOQ_ASSIGN(out.test, windows(stream.subspan(static_cast<size_t>(all - held)), files.data));
  }
  return out;
}

}  // namespace evoq
