#include "workflow/suggest_gears.h"

#include <algorithm>
#include <map>

#include "base/printable.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "engine/same_samples.h"
#include "profile/measure.h"
#include "workflow/choose_gears.h"
#include "workflow/deployment.h"

namespace evoq {
namespace {

constexpr size_t kMostMeasured = 16;

// Dimension 0, where all inputs have the same; else 0.
int64_t SamplesOf(const InputShapes& shapes) {
  int64_t samples = 0;
  for (const auto& [name, sizes] : shapes) {
    if (sizes.empty() || (samples != 0 && sizes[0] != samples)) return 0;
    samples = sizes[0];
  }
  return samples;
}

std::string SizesText(const InputShapes& shapes) {
  std::vector<std::string> parts;
  for (const auto& [name, sizes] : shapes)
    parts.push_back(fmt::format("{}={}", name, fmt::join(sizes, "x")));
  return fmt::format("{}", fmt::join(parts, " "));
}

// A size that came, with what is known of it.
struct Size {
  ObservedSizes observed;
  double elements = 0;
  bool measured = false;
  double ms = 0;
  int64_t batch = 1;                   // BatchOf its executor
  std::shared_ptr<Executor> executor;  // where it was measured
};

class Suggestion {
 public:
  Suggestion(Engine& engine, std::vector<ObservedSizes> observed) : engine_(engine) {
    for (ObservedSizes& o : observed) {
      const double elements = ElementsOf(o.shapes);
      sizes_.push_back({std::move(o), elements});
    }
    std::ranges::sort(sizes_, [](const Size& a, const Size& b) {
      return std::pair(a.elements, a.observed.shapes) < std::pair(b.elements, b.observed.shapes);
    });
  }

  Status Measure(double seconds, const Follow& follow);
  SuggestedGears Choose(size_t most) const;

 private:
  Status MeasureOne(Size& size, double seconds);
  void FillBetween();
  std::vector<std::vector<size_t>> Families() const;
  bool SamePlan(size_t a, size_t b) const;
  bool Pads(std::span<const size_t> family) const;
  void Serve(std::span<const size_t> family, bool pads, SuggestedGears& out) const;

  Engine& engine_;
  mutable DerivedWeights derived_;
  std::vector<Size> sizes_;  // by elements
  double prepare_ms_ = 0;
};

Status Suggestion::MeasureOne(Size& size, double seconds) {
  const Stopwatch watch;
  EVOQ_ASSIGN(size.executor, engine_.At(size.observed.shapes));
  prepare_ms_ = watch.ms();
  size.batch = BatchOf(*size.executor);
  RunBuffers buffers = MakeBuffers(*size.executor);
  MeasureOptions options;
  options.warmup_ms = 50 * seconds;
  options.duration_s = seconds;
  options.min_runs = 3;
  EVOQ_ASSIGN(const RunTimes times, MeasureRuns(*size.executor, buffers, options));
  size.ms = times.median();
  size.measured = true;
  return {};
}

// Those with the fewest and the most elements, and others evenly between.
Status Suggestion::Measure(double seconds, const Follow& follow) {
  const size_t count = std::min(sizes_.size(), kMostMeasured);
  std::vector<double> prepared;
  for (size_t i = 0; i < count; ++i) {
    EVOQ_TRY(follow.At("measuring sizes", static_cast<double>(i) / static_cast<double>(count)));
    Size& size = sizes_[count == 1 ? 0 : i * (sizes_.size() - 1) / (count - 1)];
    EVOQ_TRY(WithContext(MeasureOne(size, seconds / static_cast<double>(count)),
                         SizesText(size.observed.shapes)));
    prepared.push_back(prepare_ms_);
  }
  // The first one also prepares what all share.
  if (prepared.size() > 1) prepared.erase(prepared.begin());
  std::ranges::sort(prepared);
  prepare_ms_ = prepared[prepared.size() / 2];
  FillBetween();
  return {};
}

// What was not measured lies between its neighbours, by its elements.
void Suggestion::FillBetween() {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i].measured) continue;
    size_t low = i, high = i;
    while (!sizes_[low].measured) --low;
    while (!sizes_[high].measured) ++high;
    const Size &a = sizes_[low], &b = sizes_[high];
    const double width = b.elements - a.elements;
    const double at = width > 0 ? (sizes_[i].elements - a.elements) / width : 0;
    sizes_[i].ms = a.ms + at * (b.ms - a.ms);
    sizes_[i].batch = a.batch > 1 && b.batch > 1 ? SamplesOf(sizes_[i].observed.shapes) : 1;
    sizes_[i].executor = b.executor;
  }
}

// Whether programs like those of sizes a and b give a sample the same bits.
bool Suggestion::SamePlan(size_t a, size_t b) const {
  const Executor &one = *sizes_[a].executor, &other = *sizes_[b].executor;
  return &one == &other || SameBits(one.program(), other, engine_.isa(), derived_);
}

// Sizes that differ in their batch alone and give a sample the same bits, by ascending batch.
std::vector<std::vector<size_t>> Suggestion::Families() const {
  std::map<InputShapes, std::vector<std::vector<size_t>>> by_sample;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    InputShapes sample = sizes_[i].observed.shapes;
    const bool batch = SamplesOf(sample) > 0;
    for (auto& [name, sizes] : sample) {
      if (batch) sizes[0] = 0;
    }
    auto& families = by_sample[sample];
    const auto like = std::ranges::find_if(
        families, [&](const std::vector<size_t>& f) { return SamePlan(f.back(), i); });
    if (like == families.end()) {
      families.push_back({i});
    } else {
      like->push_back(i);
    }
  }
  std::vector<std::vector<size_t>> all;
  for (auto& [sample, families] : by_sample) {
    for (auto& family : families) all.push_back(std::move(family));
  }
  return all;
}

bool Suggestion::Pads(std::span<const size_t> family) const {
  const Size& largest = sizes_[family.back()];
  return family.size() > 1 && largest.batch > 1 &&
         largest.batch == SamplesOf(largest.observed.shapes);
}

// Counts what the gears of a family serve.
void Suggestion::Serve(std::span<const size_t> family, bool pads, SuggestedGears& out) const {
  for (const size_t index : family) {
    const InputShapes& shapes = sizes_[index].observed.shapes;
    const int64_t samples = SamplesOf(shapes), runs = sizes_[index].observed.runs;
    SuggestedGears::Gear* by = nullptr;
    int64_t batch = 0;
    for (SuggestedGears::Gear& gear : out.gears) {
      const auto in_family = std::ranges::any_of(
          family, [&](size_t i) { return sizes_[i].observed.shapes == gear.shapes; });
      const int64_t size = SamplesOf(gear.shapes);
      if (gear.shapes == shapes) by = &gear, batch = samples;
      if (!in_family || !pads || size < 2 || batch == samples) continue;
      if (by == nullptr || (batch >= samples ? size >= samples && size < batch : size > batch))
        by = &gear, batch = size;
    }
    if (by == nullptr) {
      out.waiting += runs;
      continue;
    }
    by->runs += runs;
    if (by->shapes == shapes) by->own += runs;
  }
}

SuggestedGears Suggestion::Choose(size_t most) const {
  SuggestedGears out;
  out.sizes = sizes_.size();
  out.prepare_ms = prepare_ms_;
  const std::vector<std::vector<size_t>> families = Families();
  std::vector<GearFamily> items;
  for (const auto& family : families) {
    GearFamily& to = items.emplace_back();
    to.pads = Pads(family);
    for (const size_t i : family)
      to.items.push_back({std::max<int64_t>(SamplesOf(sizes_[i].observed.shapes), 1),
                          sizes_[i].observed.runs, sizes_[i].ms});
  }
  double least_ms = 0;
  for (const Size& size : sizes_) {
    out.runs += size.observed.runs;
    out.measured += size.measured ? 1 : 0;
    least_ms += static_cast<double>(size.observed.runs) * size.ms;
  }
  const auto runs = static_cast<double>(out.runs);
  out.least_ms = least_ms / runs;
  const std::vector<ChosenGears> chosen = ChooseGears(items, most, prepare_ms_);
  for (const ChosenGears& c : chosen) out.expected_ms.push_back(c.total_ms / runs);
  for (const auto& [family, item] : chosen.back().gears) {
    const Size& size = sizes_[families[family][item]];
    out.gears.push_back({size.observed.shapes, size.ms});
  }
  std::ranges::sort(out.gears, {}, &SuggestedGears::Gear::shapes);
  for (size_t f = 0; f < families.size(); ++f) Serve(families[f], items[f].pads, out);
  if (std::ranges::none_of(items, &GearFamily::pads))
    out.why_exact =
        "no gear serves other sizes exactly: they differ in more than a batch of samples that do "
        "not depend on each other, or are computed in ways that round differently";
  return out;
}

}  // namespace

Result<SuggestedGears> SuggestGears(const Model& packed, const SuggestJob& job,
                                    const Follow& follow) {
  if (job.most < 1 || job.most > kMostShapeSets)
    return Fail(ErrorCode::kUsage, "--suggest-gears {}: expected 1 to {}", job.most,
                kMostShapeSets);
  EVOQ_ASSIGN(std::vector<ObservedSizes> observed, ReadObservedSizes(job.file, packed.graph));
  EVOQ_ASSIGN(const auto engine,
              Engine::Of({.model = packed}, {.threads = job.threads}, AllParts()));
  Suggestion suggestion(*engine, std::move(observed));
  EVOQ_TRY(suggestion.Measure(job.seconds, follow));
  return suggestion.Choose(job.most);
}

Told Tell(const SuggestedGears& s) {
  Told told;
  told.text = fmt::format("gears for {} runs of {} different sizes, {} of which were measured:\n",
                          s.runs, s.sizes, s.measured);
  told.json = {{"runs", s.runs},
               {"sizes", s.sizes},
               {"measured", s.measured},
               {"waiting", s.waiting},
               {"prepare_ms", s.prepare_ms},
               {"expected_ms", s.expected_ms},
               {"least_ms", s.least_ms},
               {"gears", nlohmann::json::array()}};
  for (const SuggestedGears::Gear& gear : s.gears) {
    told.text +=
        FormatPrintable("  {:28} {:9.3f} ms  {:5.1f}% of the runs, {:.1f}% of these sizes\n",
                        SizesText(gear.shapes), gear.ms,
                        100.0 * static_cast<double>(gear.runs) / static_cast<double>(s.runs),
                        100.0 * static_cast<double>(gear.own) / static_cast<double>(s.runs));
    told.json["gears"].push_back(
        {{"shapes", gear.shapes}, {"ms", gear.ms}, {"runs", gear.runs}, {"own", gear.own}});
  }
  told.text += fmt::format(
      "  expected {:.3f} ms a run; {:.3f} with one gear, {:.3f} with a plan for each size, {:.3f} "
      "where each run waits {:.1f} ms for its plan\n",
      s.expected_ms.back(), s.expected_ms[std::min<size_t>(1, s.expected_ms.size() - 1)],
      s.least_ms, s.expected_ms[0], s.prepare_ms);
  if (s.waiting > 0)
    told.text += fmt::format("  {} runs are of sizes that no gear serves\n", s.waiting);
  if (!s.why_exact.empty()) {
    told.text += fmt::format("  {}\n", s.why_exact);
    told.json["why_exact"] = s.why_exact;
  }
  return told;
}

}  // namespace evoq
