#include "workflow/language_speed.h"

#include <algorithm>

#include "base/printable.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "generate/cached_model.h"
#include "report/table.h"
#include "runtime/buffers.h"
#include "workflow/bench_json.h"

namespace evoq {
namespace {

using nlohmann::json;

// That follow a context: as many as the job says and the model holds.
int64_t DecodeTokens(const LanguageBenchJob& job, int64_t context, int64_t most) {
  return std::min(job.decode_tokens, most - context);
}

// A prompt that is longer than what a run takes at once has as much to do in pieces as in one.
class Bench {
 public:
  // `prompt`: its tokens, which are the source of what a model writes that reads.
  Bench(CachedModel& model, const LanguageBenchJob& job, int64_t prompt, const Limits& limits,
        const Follow& follow)
      : model_(model), job_(job), prompt_(prompt), limits_(limits), follow_(follow) {}

  Result<MeasuredPhase> Prompt(int64_t length) {
    MeasuredPhase m{.def = &kPromptPhase, .phase = {1, 0, length}};
    EVOQ_TRY(CountWork(m, m.phase));
    const std::vector<int64_t> tokens = Tokens(length);
    const Source source = model_.reads() ? model_.MadeUpSource(length) : Source();
    EVOQ_TRY(Measure(m, [&]() -> Status {
      if (model_.reads()) return model_.Encode(0, source);
      model_.Truncate(0, 0);
      EVOQ_TRY(model_.Append(0, tokens));
      return {};
    }));
    return m;
  }

  Result<MeasuredPhase> Decode(int64_t context, int64_t sequences) {
    const int64_t source = model_.reads() ? prompt_ : 0;
    MeasuredPhase m{.def = &kDecodePhase, .phase = {sequences, context, 1, source}};
    const int64_t end = context + DecodeTokens(job_, context, MostTokens(model_.graph()));
    EVOQ_TRY(CountWork(m, {sequences, (context + end - 1) / 2, 1, source}));
    EVOQ_TRY(Fill(context, sequences));
    const std::vector<int64_t> tokens = Tokens(sequences);
    EVOQ_TRY(Measure(m, [&]() -> Status {
      if (model_.length(0) >= end) {
        for (int64_t slot = 0; slot < sequences; ++slot) model_.Truncate(slot, context);
      }
      EVOQ_TRY(model_.Step(0, tokens));
      return {};
    }));
    return m;
  }

 private:
  std::vector<int64_t> Tokens(int64_t count) const {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(i * 7919 % model_.vocabulary());
    return tokens;
  }

  // Gives each sequence a context of made-up keys and values, which cost what real ones do.
  Status Fill(int64_t context, int64_t sequences) {
    if (model_.reads()) EVOQ_TRY(model_.Encode(0, model_.MadeUpSource(prompt_)));
    for (int64_t slot = 1; model_.reads() && slot < sequences; ++slot) model_.CopySource(0, slot);
    std::vector<Tensor> caches;
    for (const TensorType& type : model_.CacheTypes(context)) {
      caches.push_back(Tensor::Allocate(type));
      FillForSpeed(caches.back(), static_cast<uint32_t>(caches.size()));
    }
    for (int64_t slot = 0; slot < sequences; ++slot) EVOQ_TRY(model_.Give(slot, caches));
    return {};
  }

  Status CountWork(MeasuredPhase& m, const Phase& mean) {
    const std::optional<CacheInputs> inputs = FindCacheInputs(model_.graph());
    EVOQ_CHECK(inputs.has_value());
    EVOQ_ASSIGN(const PhaseInputs at, InputsOf(model_.graph(), *inputs, mean, model_.context()));
    EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, model_.engine().At(at.shapes));
    m.work = Sum(WorkOf(executor->program(), mean));
    m.limits = LimitsOf(m.work, limits_);
    return {};
  }

  Status Measure(MeasuredPhase& m, const std::function<Status()>& call) {
    DisturbanceMeter meter(ThisMachine());
    MeasureOptions options;
    options.warmup_ms = job_.warmup_ms;
    options.duration_s = job_.duration_s;
    options.min_runs = job_.iterations;
    options.meter = &meter;
    options.progress = follow_.Stage(std::string("measuring ") + m.def->name);
    EVOQ_TRY(call());  // prepares what it runs
    EVOQ_ASSIGN(m.times, MeasureCalls(call, options));
    m.disturbance = meter.Read();
    return {};
  }

  CachedModel& model_;
  const LanguageBenchJob& job_;
  int64_t prompt_;
  const Limits& limits_;
  const Follow& follow_;
};

// What job.contexts says, or what of the usual ones the model holds.
std::vector<int64_t> ContextsOf(const LanguageBenchJob& job, int64_t most) {
  if (!job.contexts.empty()) return job.contexts;
  std::vector<int64_t> contexts;
  for (const int64_t context : {0, 1024, 4096}) {
    if (context < most) contexts.push_back(context);
  }
  return contexts;
}

Status CheckJob(const LanguageBenchJob& job) {
  const auto check = [](const char* option, std::span<const int64_t> numbers,
                        int64_t least) -> Status {
    for (const int64_t n : numbers) {
      if (n < least || n > CachedModel::kMaxContext)
        return Fail(ErrorCode::kUsage, "{} {}: expected {} to {}", option, n, least,
                    CachedModel::kMaxContext);
    }
    return {};
  };
  EVOQ_TRY(check("--prompt-length", std::span(&job.prompt_length, 1), 0));
  EVOQ_TRY(check("--context", job.contexts, 0));
  EVOQ_TRY(check("--decode-tokens", std::span(&job.decode_tokens, 1), 1));
  EVOQ_TRY(check("--sequences", job.sequences, 1));
  return job.sequences.empty() ? Fail(ErrorCode::kUsage, "--sequences: none") : Status();
}

// Of what the limits allow, or "" where they allow nothing to compare with.
std::string ShareText(double limit_ms, double ms) {
  return limit_ms > 0 ? fmt::format("{:.0f}%", 100 * limit_ms / ms) : "";
}

json ToJson(const MeasuredPhase& m) {
  const double ms = m.times.median();
  json out = TimesJson(m.times);
  out.update({{"phase", m.def->name},
              {"sequences", m.phase.sequences},
              {"context", m.phase.context},
              {"tokens", m.phase.tokens},
              {"tokens_per_s", m.tokens_per_s()},
              {"limit_tokens_per_s", m.share() > 0 ? m.tokens_per_s() / m.share() : 0},
              {"share", m.share()},
              {"bound", m.limits.bound()},
              {"arithmetic_share", m.limits.arithmetic_ms / ms},
              {"memory_share", m.limits.memory_ms / ms},
              {"macs", m.work.all_macs()},
              {"weight_bytes", m.work.weight_bytes},
              {"cache_bytes", m.work.cache_bytes},
              {"disturbance", ToJson(m.disturbance)}});
  return out;
}

}  // namespace

WorkLimits LimitsOf(const Work& work, const Limits& limits) {
  WorkLimits out;
  for (size_t peak = 0; peak < work.macs.size(); ++peak)
    out.arithmetic_ms += RooflineNs(limits, static_cast<Peak>(peak), work.macs[peak], 0) / 1e6;
  out.memory_ms = RooflineNs(limits, Peak::kMemory, 0, work.bytes()) / 1e6;
  return out;
}

double MeasuredPhase::tokens_per_s() const {
  return 1e3 * static_cast<double>(phase.sequences * phase.tokens) / times.median();
}

double MeasuredPhase::share() const { return limits.ms() / times.median(); }

Result<LanguageBench> BenchLanguage(std::unique_ptr<Engine> engine, double load_ms,
                                    const LanguageBenchJob& job, const Follow& follow) {
  EVOQ_TRY(CheckJob(job));
  const Stopwatch watch;
  const int64_t most = MostTokens(engine->model().graph);
  const int64_t prompt = PromptLength({.prompt_length = job.prompt_length}, most);
  const std::vector<int64_t> contexts = ContextsOf(job, most);
  CacheOptions caches{.type = job.kv_cache};
  caches.slots = *std::ranges::max_element(job.sequences);
  caches.context = prompt;
  for (const int64_t context : contexts) {
    if (context >= most)
      return Fail(ErrorCode::kUsage,
                  "--context {}: {} holds at most {} tokens, with those that follow", context,
                  job.model, most);
    caches.context = std::max(caches.context, context + DecodeTokens(job, context, most));
  }
  EVOQ_ASSIGN(const std::unique_ptr<CachedModel> model,
              CachedModel::Of(std::move(engine), caches, job.model));
  LanguageBench out;
  out.model = job.model;
  out.isa = model->engine().isa();
  out.threads = model->threads();
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_TRY(model->Prepare(prompt, 1));
  out.load_ms = load_ms + watch.ms();
  const std::vector<int64_t> zeros(static_cast<size_t>(prompt), 0);
  if (model->reads()) {
    EVOQ_TRY(model->Encode(0, model->MadeUpSource(prompt)));
    EVOQ_TRY(model->Append(0, model->target().start));
  } else {
    EVOQ_TRY(model->Append(0, zeros));
  }
  out.first_token_ms = load_ms + watch.ms();
  out.room = model->context();
  out.slots = model->slots();
  out.cache_bytes = model->cache_bytes();
  EVOQ_TRY(follow.At("measuring the machine's limits", 0));
  out.limits = MeasureLimits(out.isa, out.threads);
  Bench bench(*model, job, prompt, out.limits, follow);
  EVOQ_ASSIGN(MeasuredPhase read, bench.Prompt(prompt));
  out.phases.push_back(std::move(read));
  for (const int64_t context : contexts) {
    for (const int64_t sequences : job.sequences) {
      EVOQ_ASSIGN(MeasuredPhase written, bench.Decode(context, sequences));
      out.phases.push_back(std::move(written));
    }
  }
  out.weight_bytes = out.phases.back().work.weight_bytes;
  return out;
}

Told Tell(const LanguageBench& b) {
  Told told;
  told.json = {{"model", b.model},
               {"isa", IsaName(b.isa)},
               {"threads", b.threads},
               {"load_ms", b.load_ms},
               {"first_token_ms", b.first_token_ms},
               {"peak_rss_bytes", PeakRssBytes()},
               {"weight_bytes", b.weight_bytes},
               {"cache_bytes", b.cache_bytes},
               {"limits",
                {{"int8_gops", b.limits.int8_gops},
                 {"bf16_gflops", b.limits.bf16_gflops},
                 {"fp32_gflops", b.limits.fp32_gflops},
                 {"dram_read_gbps", b.limits.dram_read_gbps},
                 {"l3_read_gbps", b.limits.l3_read_gbps}}},
               {"phases", json::array()}};
  told.text = FormatPrintable("{}: {} on {}, {} thread{}\n", b.model, IsaName(b.isa), b.limits.cpu,
                              b.threads, b.threads == 1 ? "" : "s");
  TextTable table({"phase", ">context", ">sequences", ">tokens/s", ">p50 ms", ">limit tokens/s",
                   "bound by", ">of the peaks", ">of memory"});
  for (const MeasuredPhase& m : b.phases) {
    told.json["phases"].push_back(ToJson(m));
    const double ms = m.times.median();
    const bool prompt = m.def == &kPromptPhase;
    table.Row({prompt ? fmt::format("{} of {}", m.def->name, m.phase.tokens) : m.def->name,
               std::to_string(m.phase.context), std::to_string(m.phase.sequences),
               fmt::format("{:.1f}", m.tokens_per_s()), fmt::format("{:.3f}", ms),
               fmt::format("{:.1f}", m.tokens_per_s() / std::max(m.share(), 1e-9)),
               m.limits.bound(), ShareText(m.limits.arithmetic_ms, ms),
               ShareText(m.limits.memory_ms, ms)});
    if (const std::string disturbed = ToText(m.disturbance); !disturbed.empty())
      told.log.push_back(
          FormatPrintable("{} behind {}: disturbed: {}", m.def->name, m.phase.context, disturbed));
  }
  told.text += table.ToString();
  told.text += fmt::format(
      "limits: int8 {:.0f} GOPS, bfloat16 {:.0f} and float32 {:.0f} GFLOPS; memory {:.1f} GB/s, L3 "
      "{:.0f}; a token reads {} of weights\n",
      b.limits.int8_gops, PeakGops(b.limits, Peak::kBf16), b.limits.fp32_gflops,
      b.limits.dram_read_gbps, b.limits.l3_read_gbps, HumanBytes(b.weight_bytes));
  told.text += fmt::format(
      "loaded in {:.0f} ms, the prompt's first token behind {:.0f} ms; caches {} for {} x {} "
      "tokens; peak memory {}\n",
      b.load_ms, b.first_token_ms, HumanBytes(b.cache_bytes), b.slots, b.room,
      HumanBytes(PeakRssBytes()));
  return told;
}

}  // namespace evoq
