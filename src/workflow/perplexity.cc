#include "workflow/perplexity.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/file.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "data/npy.h"
#include "generate/cached_form.h"
#include "generate/cached_model.h"
#include "generate/model_tokenizer.h"
#include "llm/cache_type.h"
#include "llm/facts.h"
#include "llm/phase.h"
#include "models/models.h"
#include "workflow/bench_json.h"
#include "workflow/models.h"

namespace evoq {
namespace {

Status CheckModel(const Graph& graph, const std::string& path) {
  const bool one = graph.inputs().size() == 1 && !graph.outputs().empty();
  const DType dtype = one ? graph.value(graph.inputs()[0]).type.dtype : DType::kUndefined;
  if (dtype == DType::kInt64 || dtype == DType::kInt32) return {};
  return Unsupported(
      "{}: expected a model of one input, token numbers [batch, length], and logits as its first "
      "output",
      path);
}

Tensor TokensAs(DType dtype, std::span<const int64_t> tokens) {
  Tensor t = Tensor::Allocate(TensorType(dtype, Shape{1, static_cast<int64_t>(tokens.size())}));
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (dtype == DType::kInt64) t.mutable_data<int64_t>()[i] = tokens[i];
    if (dtype == DType::kInt32) t.mutable_data<int32_t>()[i] = static_cast<int32_t>(tokens[i]);
  }
  return t;
}

// -log softmax(logits)[target], in float64.
double LossOf(const float* logits, int64_t n, int64_t target) {
  const float max = *std::max_element(logits, logits + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  return std::log(sum) - (static_cast<double>(logits[target]) - max);
}

// Gets logits [rows, pieces] of a window's tokens from number `first` on.
using OnRows = std::function<void(int64_t first, std::span<const float> logits, int64_t pieces)>;

// Asks a model for a window, without what came before.
using RunWindow = std::function<Status(std::span<const int64_t> tokens, const OnRows& on_rows)>;

// `pieces`: the least that logits may be of.
RunWindow WindowsOf(std::shared_ptr<Engine> engine, const std::string& path, int64_t pieces) {
  return [engine, path, pieces](std::span<const int64_t> tokens, const OnRows& on_rows) -> Status {
    const Graph& graph = engine->model().graph;
    const Tensor input = TokensAs(graph.value(graph.inputs()[0]).type.dtype, tokens);
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, engine->Run(std::span(&input, 1)));
    EVOQ_ASSIGN(const Tensor logits, ToFloat32(outputs[0]));
    const std::vector<int64_t> sizes = logits.sizes();
    if (sizes.size() != 3 || sizes[0] != 1 || sizes[1] != static_cast<int64_t>(tokens.size()) ||
        sizes[2] < pieces)
      return InvalidInput("{}: output 0 is {}, expected [1, {}, {}]", path,
                          logits.type().ToString(), tokens.size(), pieces);
    on_rows(0, logits.values<float>(), sizes[2]);
    return {};
  };
}

RunWindow CachedWindowsOf(std::shared_ptr<CachedModel> model) {
  return [model](std::span<const int64_t> tokens, const OnRows& on_rows) -> Status {
    constexpr size_t kChunk = 256;  // logits of more take much memory
    model->Truncate(0, 0);
    for (size_t at = 0; at < tokens.size(); at += kChunk) {
      const auto chunk = tokens.subspan(at, std::min(kChunk, tokens.size() - at));
      EVOQ_ASSIGN(const std::span<const float> logits,
                  model->Append(0, chunk, static_cast<int64_t>(chunk.size())));
      on_rows(static_cast<int64_t>(at), logits, model->vocabulary());
    }
    return {};
  };
}

}  // namespace

double PerplexityResult::perplexity() const { return std::exp(nll); }

Result<TextTokens> TokensOfText(const Graph& graph, const std::string& model,
                                const std::string& text, const std::string& tokenizer) {
  EVOQ_ASSIGN(const std::string bytes, ReadTextFile(text));
  EVOQ_ASSIGN(const ModelTokenizer carried, WithContext(TokenizerOf(graph, tokenizer), model));
  if (!carried.tokenizer)
    return Fail(ErrorCode::kUsage, "--text needs the model's --tokenizer: {} carries none", model);
  TextTokens out{.pieces = carried.tokenizer->size()};
  EVOQ_ASSIGN(out.tokens, carried.tokenizer->Encode(bytes));
  if (out.tokens.size() < 2) return InvalidInput("{}: no text", text);
  return out;
}

Result<PerplexityResult> EvaluatePerplexity(const PerplexityJob& job, const Follow& follow) {
  EVOQ_TRY(CheckThreads(job.threads));
  if (job.window < 1 || job.window > int64_t{1} << 20)
    return Fail(ErrorCode::kUsage, "--window {}: expected 1 to 1048576", job.window);
  EVOQ_TRY(ParseCacheType(job.kv_cache));
  if (!job.tokens.empty()) EVOQ_TRY(CheckOutputPath(job.tokens));
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine, LoadEngine(job.model, {.threads = job.threads}));
  EVOQ_ASSIGN(engine, InCachedForm(std::move(engine), job.model, job.kv_cache));
  EVOQ_ASSIGN(const TextTokens text,
              TokensOfText(engine->model().graph, job.model, job.text, job.tokenizer));
  const std::vector<int64_t>& tokens = text.tokens;
  const auto all = static_cast<int64_t>(tokens.size()) - 1;  // predicted tokens
  const int64_t window = std::min(job.window, all), whole = all / window;
  const int64_t windows = job.limit > 0 ? std::min(job.limit, whole) : whole;
  PerplexityResult result;
  result.model = job.model;
  double ms = 0;
  RunWindow run;
  if (IsLanguageModel(engine->model().graph)) {
    const std::optional<CacheInputs> inputs = FindCacheInputs(engine->model().graph);
    if (inputs && inputs->reads())
      return Fail(
          ErrorCode::kUsage,
          "{}: a model that reads one text and writes another is not measured with one text",
          job.model);
    EVOQ_ASSIGN(auto cached, CachedModel::Of(std::move(engine), {.context = window}, job.model));
    if (cached->vocabulary() < text.pieces)
      return InvalidInput("{}: it knows {} pieces, the tokenizer {}", job.model,
                          cached->vocabulary(), text.pieces);
    run = CachedWindowsOf(std::move(cached));
  } else {
    EVOQ_TRY(CheckModel(engine->model().graph, job.model));
    run = WindowsOf(std::move(engine), job.model, text.pieces);
  }
  for (int64_t w = 0; w < windows; ++w) {
    const Stopwatch watch;
    double counting_ms = 0;
    const auto count = [&](int64_t first, std::span<const float> logits, int64_t pieces) {
      const Stopwatch counting;
      for (int64_t i = 0; i * pieces < static_cast<int64_t>(logits.size()); ++i) {
        const float* row = logits.data() + i * pieces;
        const int64_t target = tokens[static_cast<size_t>(w * window + first + i + 1)];
        result.nll += LossOf(row, pieces, target);
        result.right += std::max_element(row, row + pieces) - row == target;
      }
      counting_ms += counting.ms();
    };
    EVOQ_TRY(
        run(std::span(tokens).subspan(static_cast<size_t>(w * window), static_cast<size_t>(window)),
            count));
    ms += watch.ms() - counting_ms;
    result.tokens += window;
    ++result.windows;
    EVOQ_TRY(follow.At("evaluating", static_cast<double>(w + 1) / static_cast<double>(windows)));
  }
  if (!job.tokens.empty()) EVOQ_TRY(WriteNpy(Tensor::FromValues(tokens), job.tokens));
  result.nll /= static_cast<double>(result.tokens);
  result.ms_per_token = ms / static_cast<double>(result.tokens);
  return result;
}

Told Tell(const PerplexityResult& r) {
  const int64_t windows = std::max<int64_t>(r.windows, 1);
  Told told;
  told.json = {{"model", r.model},
               {"samples", r.windows},
               {"tokens", r.tokens},
               {"perplexity", r.perplexity()},
               {"nll", r.nll},
               {"top1", r.top1()},
               {"top5", nullptr},
               {"agreement", nullptr},
               {"ms_per_sample",
                r.ms_per_token * static_cast<double>(r.tokens) / static_cast<double>(windows)}};
  told.text = FormatPrintable(
      "{}: perplexity {:.4f} (negative log-likelihood {:.5f}) on {} tokens in {} windows of {}; "
      "{:.4f} of them the first choice; {:.3f} ms per token\n",
      r.model, r.perplexity(), r.nll, r.tokens, r.windows, r.tokens / windows, r.top1(),
      r.ms_per_token);
  return told;
}

}  // namespace evoq
