#include "models/region_run.h"

#include "base/check.h"

namespace evoq {
namespace {

// Types that come in every run get their stages in the first two or three (Region::IsWorthAStage).
constexpr int kMostSettlingRuns = 8;

std::shared_ptr<RegionContext> ContextFor(Isa isa, std::shared_ptr<ThreadPool> pool,
                                          std::shared_ptr<PackCache> packs) {
  auto context = std::make_shared<RegionContext>();
  context->isa = isa;
  context->pool = std::move(pool);
  context->packs = std::move(packs);
  return context;
}

}  // namespace

Result<std::unique_ptr<RegionRun>> RegionRun::Create(const Graph& lowered,
                                                     std::shared_ptr<PackCache> packs, Isa isa,
                                                     int threads, std::vector<Tensor> sample) {
  auto run = std::unique_ptr<RegionRun>(new RegionRun());
  run->context_ = ContextFor(isa, std::make_shared<ThreadPool>(threads), std::move(packs));
  run->region_ = std::make_unique<Region>(lowered, Region::Form::kLowered, run->context_);
  for (int64_t i = 0, before = -1; i < kMostSettlingRuns && run->context_->prepared != before;
       ++i) {
    before = run->context_->prepared;
    EVOQ_TRY(run->region_->Run(sample));
  }
  run->region_->ResetTimes();
  run->context_->timed = true;
  auto outputs = run->region_->Run(sample);
  run->context_->timed = false;
  if (!outputs) return tl::unexpected(std::move(outputs.error()));
  EVOQ_ASSIGN(RegionTrace trace, run->region_->Trace());
  run->trace_ = std::make_shared<const RegionTrace>(std::move(trace));
  for (const Tensor& t : sample) run->input_types_.push_back(t.type());
  for (const Tensor& t : *outputs) run->output_types_.push_back(t.type());
  run->UseSample(std::move(sample));
  return run;
}

Result<std::unique_ptr<Runnable>> RegionRun::Fresh(std::shared_ptr<ThreadPool> pool) const {
  auto run = std::unique_ptr<RegionRun>(new RegionRun());
  if (pool == nullptr) pool = std::make_shared<ThreadPool>(threads());
  run->context_ = ContextFor(context_->isa, std::move(pool), context_->packs);
  EVOQ_ASSIGN(run->region_, region_->Another(run->context_));
  run->trace_ = trace_;
  run->input_types_ = input_types_;
  run->output_types_ = output_types_;
  run->UseSample(sample());
  return run;
}

Status RegionRun::Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  EVOQ_ASSIGN(std::vector<Tensor> results, region_->Run(inputs));
  if (outputs.size() != results.size())
    return Fail(ErrorCode::kUsage, "{} outputs given, expected {}", outputs.size(), results.size());
  for (size_t i = 0; i < results.size(); ++i) outputs[i] = std::move(results[i]);
  return {};
}

Status RegionRun::RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           std::span<int64_t> step_ns) {
  EVOQ_CHECK(step_ns.size() == trace_->runs.size());
  region_->ResetTimes();
  context_->timed = true;
  Status ran = Run(inputs, outputs);
  context_->timed = false;
  EVOQ_TRY(std::move(ran));
  std::fill(step_ns.begin(), step_ns.end(), 0);
  region_->AddTimes(step_ns);
  return {};
}

}  // namespace evoq
