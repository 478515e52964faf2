#include "workflow/probe.h"

#include <algorithm>

#include "llm/phase.h"
#include "workflow/perplexity.h"

namespace evoq {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

Status CheckOptions(const ProbeOptions& o) {
  const int sources = !o.data.empty() + (o.random > 0) + !o.text.empty() + !o.samples.empty();
  if (sources != 1)
    return Fail(ErrorCode::kUsage,
                "expected samples from one source: --data DIR, --random N, or --text F");
  if (!o.labels.empty() && o.data.empty())
    return Fail(ErrorCode::kUsage, "--labels are those of --data, which was not given");
  if (o.limit < 0) return Fail(ErrorCode::kUsage, "--limit {}: expected at least 0", o.limit);
  if (o.window < 1 || o.window > int64_t{1} << 20)
    return Fail(ErrorCode::kUsage, "--window {}: expected 1 to 1048576", o.window);
  return CheckSizes(o.shapes);
}

// Windows of a text for a model of one input, token numbers [1, S].
Result<Samples> PlainWindows(const Graph& graph, const std::string& model,
                             std::span<const int64_t> tokens, const ProbeOptions& o) {
  const bool one = graph.inputs().size() == 1;
  const DType dtype = one ? graph.value(graph.inputs()[0]).type.dtype : DType::kUndefined;
  if (dtype != DType::kInt64 && dtype != DType::kInt32)
    return Fail(ErrorCode::kUsage,
                "--text: {} is neither a language model with caches nor one of a single input, "
                "token numbers [batch, length]",
                model);
  const int64_t predicted = static_cast<int64_t>(tokens.size()) - 1,
                window = std::min(o.window, predicted);
  const int64_t whole = predicted / window, count = o.limit > 0 ? std::min(o.limit, whole) : whole;
  Samples samples;
  for (int64_t w = 0; w < count; ++w) {
    const auto at = tokens.subspan(static_cast<size_t>(w * window));
    std::vector<int64_t> ids(at.begin(), at.begin() + window);
    const Shape shape{1, window};
    samples.inputs.push_back(
        {dtype == DType::kInt64
             ? Tensor::FromValues<int64_t>(shape, ids)
             : Tensor::FromValues<int32_t>(shape, std::vector<int32_t>(ids.begin(), ids.end()))});
    samples.next.emplace_back(at.begin() + 1, at.begin() + window + 1);
  }
  samples.labels.resize(samples.inputs.size());
  return samples;
}

Result<ProbeSamples> OfText(const ProbeOptions& o, const Graph& graph, const std::string& model) {
  EVOQ_ASSIGN(const TextTokens text, TokensOfText(graph, model, o.text, o.tokenizer));
  ProbeSamples probe;
  if (FindCacheInputs(graph)) {
    EVOQ_ASSIGN(probe.samples, TextWindows(graph, text.tokens, o.window, o.limit));
  } else {
    EVOQ_ASSIGN(probe.samples, PlainWindows(graph, model, text.tokens, o));
  }
  for (size_t i = 0; i < probe.samples.inputs.size(); ++i)
    probe.names.push_back(fmt::format("{}[window {}]", o.text, i));
  return probe;
}

Result<ProbeSamples> OfData(const ProbeOptions& o, const Graph& graph, const std::string& model,
                            const std::string& beside) {
  std::string preprocess = FindPreprocess(model, o.preprocess);
  if (preprocess.empty() && !beside.empty()) preprocess = FindPreprocess(beside, "");
  EVOQ_ASSIGN(const auto data, OpenData(o.data, graph, model, preprocess, o.labels));
  const int64_t count = o.limit > 0 ? std::min(o.limit, data->size()) : data->size();
  ProbeSamples probe;
  int64_t bytes = 0;
  for (int64_t i = 0; i < count && bytes <= kMostBytes; ++i) {
    EVOQ_ASSIGN(Sample sample, data->At(i * data->size() / count));
    for (const Tensor& input : sample.inputs) bytes += static_cast<int64_t>(input.bytes());
    probe.names.push_back(std::move(sample.name));
    probe.samples.Add(std::move(sample));
  }
  Warn(*data, probe.warnings);
  return probe;
}

}  // namespace

Result<ProbeSamples> LoadProbe(const ProbeOptions& o, const Graph& graph, const std::string& model,
                               const std::string& beside) {
  EVOQ_TRY(CheckOptions(o));
  if (!o.text.empty()) return OfText(o, graph, model);
  if (!o.data.empty()) return OfData(o, graph, model, beside);
  ProbeSamples probe;
  if (o.random > 0) {
    EVOQ_ASSIGN(probe.samples, RandomInputs(graph, o.shapes, o.random));
  } else {
    const auto given = static_cast<int64_t>(o.samples.size());
    const int64_t count = o.limit > 0 ? std::min(o.limit, given) : given;
    for (int64_t i = 0; i < count; ++i)
      probe.samples.inputs.push_back(o.samples[static_cast<size_t>(i * given / count)]);
  }
  probe.samples.labels.resize(probe.samples.inputs.size());
  for (size_t i = 0; i < probe.samples.inputs.size(); ++i)
    probe.names.push_back(fmt::format("{} {}", o.random > 0 ? "random sample" : "sample", i));
  return probe;
}

}  // namespace evoq
