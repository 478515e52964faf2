#include "certify/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "certify/attribution.h"
#include "certify/speed.h"
#include "models/models.h"
#include "quant/search.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kNoiseSamples = 8;
constexpr int kTries =
    300;  // assignments whose accuracy the search may ask for while there is time
constexpr double kNearlyAsFast = 1.03;  // what the model's errors may hide
constexpr double kFaster = 0.99;        // a measured gain that counts
constexpr size_t kGroup = 4;            // candidates measured in turn
// A table is narrowed for its bytes: looking up rows of it takes next to nothing either way. What
// that may cost, as a share of the float32 model's time, and what its narrow form then counts as.
constexpr double kCostOfTable = 0.01, kNarrowTable = 0.98;

struct Candidate {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Runnable> executor;
  Reasons refused;  // layers that the scheme does not take
};

class Chooser {
 public:
  // `bound`: the job's graph at its shapes.
  Chooser(const ChooseJob& job, const Graph& bound, const Samples& samples,
          const Answers& reference, Metric metric)
      : job_(job),
        samples_(samples),
        reference_(reference),
        metric_(metric),
        attribution_(bound),
        start_(job.watch->WallMs()) {}

  Result<ChosenPlan> Run() {
    EVOQ_TRY(MeasureSchemes());
    EVOQ_TRY(MeasureConversions());
    EVOQ_ASSIGN(Assignment best, Search());
    EVOQ_TRY(Refine(best));
    if (!fastest_holds_) EVOQ_TRY(Explore(best));
    EVOQ_TRY(Contest(best));
    result_.seconds = Elapsed();
    result_.out_of_time = OutOfTime(kSearchShare) || !known_;
    result_.plan = PlanOf(best);
    return std::move(result_);
  }

 private:
  // Each stage has the time up to a share of the whole, and begins nothing after it: no model is
  // built, no run or sample begun.
  static constexpr double kSchemesShare = 0.3, kConversionsShare = 0.4, kNoiseShare = 0.5,
                          kSearchShare = 0.8, kRefineShare = 0.9;

  double Elapsed() const { return (job_.watch->WallMs() - start_) / 1e3; }
  ShareOfTime Time(double share, double until) const {
    return {share * job_.seconds, std::max(0.0, until * job_.seconds - Elapsed()), job_.watch};
  }
  bool OutOfTime(double share = 1) const { return Elapsed() > share * job_.seconds; }
  Status Tell(const char* stage, double fraction) const {
    return job_.progress ? job_.progress(stage, fraction) : Status();
  }
  size_t layers() const { return model_.layers.size(); }
  bool Exists(size_t layer, int scheme) const {
    return std::isfinite(model_.layers[layer].ms[static_cast<size_t>(scheme)]);
  }

  // The scheme on every layer that has it.
  Assignment Uniform(int scheme) const {
    Assignment a(layers(), 0);
    for (size_t i = 0; i < layers(); ++i) a[i] = Exists(i, scheme) ? scheme : 0;
    return a;
  }

  MixedPlan PlanOf(const Assignment& a) const {
    MixedPlan plan;
    for (size_t i = 0; i < a.size(); ++i) {
      plan[attribution_.name(static_cast<int>(i))] = {schemes_[static_cast<size_t>(a[i])]->name,
                                                      a[i] == 0 ? WhyFloat(a, i) : Reason()};
    }
    return plan;
  }

  // Why layer i is float32 in `a`; empty before anything is measured.
  Reason WhyFloat(const Assignment& a, size_t i) const {
    if (model_.layers.empty()) return {};
    const std::vector<double>& ms = model_.layers[i].ms;
    size_t narrow = 0;
    for (size_t s = 1; s < ms.size(); ++s) {
      if (std::isfinite(ms[s]) && (narrow == 0 || ms[s] < ms[narrow])) narrow = s;
    }
    if (narrow == 0) {
      const auto refused = refused_.find(attribution_.name(static_cast<int>(i)));
      return refused == refused_.end() ? Reason{kSlowerWhenMeasured, "no other scheme gains"}
                                       : refused->second;
    }
    const char* name = schemes_[narrow]->name;
    if (ms[narrow] >= kFaster * ms[0])
      return {kSlowerWhenMeasured,
              fmt::format("{:.4f} ms as {}, {:.4f} ms in float32", ms[narrow], name, ms[0])};
    Assignment narrowed = a;
    narrowed[i] = static_cast<int>(narrow);
    if (const double with = model_.Ms(narrowed), without = model_.Ms(a); with >= without)
      return {kSlowerWhenMeasured,
              fmt::format("{} saves {:.4f} ms here and costs {:.4f} ms around it", name,
                          ms[0] - ms[narrow], with - without + ms[0] - ms[narrow])};
    const auto accuracy = accuracies_.find(narrowed);
    if (fastest_holds_ || (accuracy != accuracies_.end() && accuracy->second.Keeps(job_.limit)))
      return {kSlowerWhenMeasured,
              fmt::format("{} saves {:.4f} ms here, and whole runs are no faster", name,
                          ms[0] - ms[narrow])};
    const bool asked = !result_.out_of_time || accuracy != accuracies_.end();
    return {"layer-kept-float-by-budget",
            fmt::format(
                "{} would save {:.4f} ms and {}", name, ms[0] - ms[narrow],
                asked ? "lose too much accuracy" : "was not tried: the time of the search was up")};
  }

  Result<Candidate> Build(const MixedPlan& plan) {
    Graph graph = job_.graph;
    EVOQ_ASSIGN(QuantizeReport report, QuantizeMixed(graph, job_.ranges, job_.options, plan));
    Candidate candidate;
    candidate.refused = std::move(report.float_reasons);
    EVOQ_ASSIGN(candidate.engine, EngineFromGraph(std::move(graph), {job_.threads, job_.shapes}));
    EVOQ_ASSIGN(candidate.executor, RunnerOf(*candidate.engine, samples_));
    ++result_.candidates;
    return candidate;
  }
  Result<Candidate> Build(const Assignment& a) { return Build(PlanOf(a)); }

  // Fills the costs of layers; schemes that no layer takes are left out.
  Status MeasureSchemes() {
    EVOQ_TRY(Tell("measuring every scheme by steps", 0));
    std::vector<const QuantScheme*> schemes = {FindScheme("float32")};
    for (const QuantScheme* scheme : AllSchemes()) {
      if (scheme != schemes[0] && scheme->for_auto) schemes.push_back(scheme);
    }
    std::vector<Candidate> candidates;
    std::vector<Runnable*> executors;
    for (const QuantScheme* scheme : schemes) {
      if (!schemes_.empty() && OutOfTime(kSchemesShare)) break;
      MixedPlan plan;
      for (int i = 0; i < attribution_.layers(); ++i)
        plan[attribution_.name(i)] = {scheme->name, {}};
      EVOQ_ASSIGN(Candidate candidate, Build(plan));
      const bool narrows = !schemes_.empty();
      if (narrows && candidate.refused.size() == static_cast<size_t>(attribution_.layers()))
        continue;
      if (narrows) refused_.insert(candidate.refused.begin(), candidate.refused.end());
      if (!narrows) candidate.refused.clear();
      schemes_.push_back(scheme);
      executors.push_back(candidate.executor.get());
      candidates.push_back(std::move(candidate));
    }
    EVOQ_ASSIGN(const auto steps, job_.steps(executors, Time(0.06, kSchemesShare + 0.05)));
    model_.layers.assign(
        static_cast<size_t>(attribution_.layers()),
        {std::vector<double>(schemes_.size()), std::vector<double>(schemes_.size())});
    model_.links = attribution_.links();
    for (size_t m = 0; m < schemes_.size(); ++m) {
      const std::vector<int> owners = attribution_.OfSteps(executors[m]->program());
      for (size_t s = 0; s < owners.size(); ++s)
        model_.layers[static_cast<size_t>(owners[s])].ms[m] += steps[m][s];
      for (size_t i = 0; i < layers(); ++i) {
        if (candidates[m].refused.count(attribution_.name(static_cast<int>(i))))
          model_.layers[i].ms[m] = kNever;
      }
      const DType values = schemes_[m]->values;
      const auto form = std::find(forms_.begin(), forms_.end(), values);
      model_.forms.push_back(static_cast<int>(form - forms_.begin()));
      if (form == forms_.end()) forms_.push_back(values);
    }
    model_.convert_ms.assign(forms_.size(), std::vector<double>(forms_.size()));
    WeighTables();
    // Where values stay float32, a scheme that does not gain on a layer is worse than none.
    for (CostModel::Layer& layer : model_.layers) {
      for (size_t m = 1; m < schemes_.size(); ++m) {
        if (model_.forms[m] == 0 && layer.ms[m] >= layer.ms[0]) layer.ms[m] = kNever;
      }
    }
    return {};
  }

  // A narrow table that costs next to nothing counts as a gain.
  void WeighTables() {
    const double most = kCostOfTable * model_.Ms(Uniform(0));
    for (size_t i = 0; i < layers(); ++i) {
      if (!attribution_.is_table(static_cast<int>(i))) continue;
      std::vector<double>& ms = model_.layers[i].ms;
      for (size_t m = 1; m < ms.size(); ++m) {
        if (ms[m] <= ms[0] + most) ms[m] = std::min(ms[m], kNarrowTable * ms[0]);
      }
    }
  }

  // For each two forms a plan that alternates between them: what it takes beyond its layers, per
  // converted element.
  Status MeasureConversions() {
    EVOQ_TRY(Tell("measuring conversions", 0));
    struct Probe {
      int a, b;  // forms
      Assignment plan;
    };
    std::vector<Probe> probes;
    for (int b = 1; b < static_cast<int>(forms_.size()); ++b) {
      for (int a = 0; a < b; ++a) probes.push_back({a, b, Alternating(FastestOf(a), FastestOf(b))});
    }
    // Until it is measured: an element is written and read again at memory speed.
    constexpr double kGuessedMs = 1e-6;
    for (const auto& [a, b, plan] : probes) SetConversion(a, b, kGuessedMs);
    if (probes.empty() || OutOfTime(kConversionsShare)) return {};
    std::vector<Candidate> candidates;
    EVOQ_ASSIGN(Candidate float32, Build(Uniform(0)));
    candidates.push_back(std::move(float32));
    for (const Probe& probe : probes) {
      if (OutOfTime(kConversionsShare)) break;
      EVOQ_ASSIGN(Candidate candidate, Build(probe.plan));
      candidates.push_back(std::move(candidate));
    }
    probes.resize(candidates.size() - 1);
    EVOQ_ASSIGN(const std::vector<double> ms,
                Measure(candidates, Time(0.04, kConversionsShare + 0.05)));
    const double drift = model_.Ms(Uniform(0)) / ms[0];
    CostModel unconverted = model_;
    for (auto& row : unconverted.convert_ms) std::fill(row.begin(), row.end(), 0.0);
    for (size_t p = 0; p < probes.size(); ++p) {
      const auto& [a, b, plan] = probes[p];
      CostModel counting = unconverted;
      counting.convert_ms[static_cast<size_t>(a)][static_cast<size_t>(b)] =
          counting.convert_ms[static_cast<size_t>(b)][static_cast<size_t>(a)] = 1;
      const double layers_ms = unconverted.Ms(plan), elements = counting.Ms(plan) - layers_ms;
      const double each =
          elements > 0 ? std::max(0.0, ms[p + 1] * drift - layers_ms) / elements : 0;
      SetConversion(a, b, each);
    }
    return {};
  }
  void SetConversion(int a, int b, double ms) {
    model_.convert_ms[static_cast<size_t>(a)][static_cast<size_t>(b)] =
        model_.convert_ms[static_cast<size_t>(b)][static_cast<size_t>(a)] = ms;
  }

  Result<std::vector<double>> Measure(std::span<const Candidate> candidates,
                                      const ShareOfTime& time) {
    std::vector<Runnable*> executors;
    for (const Candidate& c : candidates) executors.push_back(c.executor.get());
    return job_.runs(executors, time);
  }

  // The scheme of this form whose uniform plan is fastest.
  int FastestOf(int form) const {
    int fastest = -1;
    for (int s = 0; s < model_.schemes(); ++s) {
      if (model_.forms[static_cast<size_t>(s)] == form &&
          (fastest < 0 || model_.Ms(Uniform(s)) < model_.Ms(Uniform(fastest))))
        fastest = s;
    }
    return fastest;
  }

  Assignment Alternating(int even, int odd) const {
    Assignment a(layers(), 0);
    for (size_t i = 0; i < layers(); ++i) {
      const int scheme = i % 2 == 0 ? even : odd;
      a[i] = Exists(i, scheme) ? scheme : 0;
    }
    return a;
  }

  // Nothing where the time is up before all samples were run.
  Result<std::optional<Accuracy>> AccuracyOf(const Assignment& a, double until) {
    if (const auto known = accuracies_.find(a); known != accuracies_.end())
      return std::optional(known->second);
    if (OutOfTime(until)) return std::optional<Accuracy>();
    EVOQ_ASSIGN(const Candidate candidate, Build(a));
    EVOQ_ASSIGN(const Answers answers,
                Answer(*candidate.engine, samples_,
                       {&reference_, nullptr, [&] { return OutOfTime(until); }}));
    if (answers.classes.size() < reference_.classes.size()) return std::optional<Accuracy>();
    EVOQ_ASSIGN(const Accuracy accuracy, CompareAnswers(metric_, reference_, answers, samples_));
    ++result_.accuracies;
    return std::optional(accuracies_[a] = accuracy);
  }
  // Whether it is known to keep the limit.
  Result<bool> Holds(const Assignment& a, double until) {
    EVOQ_ASSIGN(const std::optional<Accuracy> accuracy, AccuracyOf(a, until));
    return accuracy && accuracy->Keeps(job_.limit);
  }

  // Where the time is up before the accuracy of any plan is known, the model's fastest: whoever
  // certifies it measures that.
  Result<Assignment> Search() {
    EVOQ_TRY(Tell("searching", 0));
    const std::function<bool()> stop = [this] { return OutOfTime(kSearchShare); };
    const Assignment fastest = Cheapest(model_, 0, stop);
    EVOQ_ASSIGN(fastest_holds_, Holds(fastest, kSearchShare));
    if (fastest_holds_) return fastest;
    known_ = accuracies_.count(fastest) > 0;
    if (!known_) return fastest;
    EVOQ_ASSIGN(Assignment uniform, FastestUniform());
    EVOQ_TRY(MeasureNoise());
    EVOQ_ASSIGN(
        Assignment found,
        FastestThatHolds(
            model_, kTries,
            [&](const Assignment& a) -> Result<bool> {
              EVOQ_TRY(Tell("searching", std::min(1.0, Elapsed() / (kSearchShare * job_.seconds))));
              return Holds(a, kSearchShare);
            },
            stop));
    return model_.Ms(uniform) < model_.Ms(found) ? std::move(uniform) : std::move(found);
  }

  // The fastest plan of one scheme that holds: what there is where the time is up before the search
  // has found a mixed one. All in float32 where none is faster and holds.
  Result<Assignment> FastestUniform() {
    std::vector<std::pair<double, int>> schemes;
    for (int s = 1; s < model_.schemes(); ++s) schemes.emplace_back(model_.Ms(Uniform(s)), s);
    std::ranges::sort(schemes);
    for (const auto& [ms, scheme] : schemes) {
      if (ms >= model_.Ms(Uniform(0))) break;
      EVOQ_ASSIGN(const bool holds, Holds(Uniform(scheme), kSearchShare));
      if (holds) return Uniform(scheme);
    }
    return Uniform(0);
  }

  // What each layer alone adds to the error of the outputs. A scheme whose error on all layers
  // together is small beside the largest one's is shared out evenly: it is not what has to be
  // saved.
  Status MeasureNoise() {
    Samples few;
    Answers wanted;
    wanted.names = reference_.names;
    const size_t count = std::min<size_t>(kNoiseSamples, samples_.inputs.size());
    for (size_t i = 0; i < count; ++i) {
      const size_t at = i * samples_.inputs.size() / count;
      few.inputs.push_back(samples_.inputs[at]);
      if (samples_.next.empty()) {
        wanted.outputs.push_back(reference_.outputs[at]);
      } else {
        few.next.push_back(samples_.next[at]);
        wanted.log_probabilities.push_back(reference_.log_probabilities[at]);
      }
    }
    const auto noise_of = [&](const Assignment& a) -> Result<double> {
      EVOQ_ASSIGN(const Candidate candidate, Build(a));
      EVOQ_ASSIGN(const Answers answers,
                  Answer(*candidate.engine, few, {&wanted, nullptr, nullptr}));
      return RelativeNoise(wanted, answers);
    };
    std::vector<double> whole(schemes_.size());
    for (int s = 1; s < model_.schemes() && !OutOfTime(kNoiseShare); ++s) {
      EVOQ_ASSIGN(whole[static_cast<size_t>(s)], noise_of(Uniform(s)));
    }
    const double most = *std::max_element(whole.begin(), whole.end());
    for (int s = 1; s < model_.schemes(); ++s) {
      const double share = whole[static_cast<size_t>(s)] / static_cast<double>(layers());
      for (size_t i = 0; i < layers(); ++i) {
        double& noise = model_.layers[i].noise[static_cast<size_t>(s)];
        noise = share;
        if (!Exists(i, s) || share * static_cast<double>(layers()) < 0.1 * most ||
            OutOfTime(kNoiseShare))
          continue;
        EVOQ_TRY(Tell("measuring what each layer loses",
                      static_cast<double>(i) / static_cast<double>(layers())));
        Assignment alone(layers(), 0);
        alone[i] = s;
        EVOQ_ASSIGN(noise, noise_of(alone));
      }
    }
    return {};
  }

  // Single changes that the model calls about as fast, in whole runs; the samples decide on what
  // gains.
  Status Refine(Assignment& best) {
    timed_.insert(best);
    for (bool moved = true; moved && known_ && !OutOfTime(kRefineShare);) {
      moved = false;
      const std::vector<Assignment> near = Neighbours(best);
      for (size_t first = 0; first < near.size() && !moved && !OutOfTime(kRefineShare);
           first += kGroup) {
        EVOQ_TRY(Tell("measuring changes of single layers",
                      static_cast<double>(first) / static_cast<double>(near.size())));
        EVOQ_TRY(TryGroup(std::span(near).subspan(first, std::min(kGroup, near.size() - first)),
                          best, moved));
        for (size_t i = first; i < std::min(first + kGroup, near.size()); ++i)
          timed_.insert(near[i]);
      }
    }
    return {};
  }

  std::vector<Assignment> Neighbours(const Assignment& best) const {
    std::vector<std::pair<double, Assignment>> near;
    const double ms = model_.Ms(best);
    for (size_t i = 0; i < layers(); ++i) {
      for (int s = 0; s < model_.schemes(); ++s) {
        Assignment a = best;
        a[i] = s;
        if (s == best[i] || !Exists(i, s) || timed_.count(a) || model_.Ms(a) > kNearlyAsFast * ms)
          continue;
        if (s == 0 && attribution_.is_table(static_cast<int>(i))) continue;  // WeighTables decided
        near.emplace_back(model_.Ms(a), a);
      }
    }
    std::sort(near.begin(), near.end());
    std::vector<Assignment> sorted;
    for (auto& [_, a] : near) sorted.push_back(std::move(a));
    return sorted;
  }

  // The time that is left, where accuracy stands in the way of the fastest plan: whether a plan
  // keeps a narrow limit is partly luck that no sum over layers foresees. In the order of what the
  // model says they take, from its fastest on through changes of single layers, plans are asked for
  // their accuracy, and those that hold are measured against the best.
  Status Explore(Assignment& best) {
    std::set<std::pair<double, Assignment>> open;
    std::set<Assignment> reached;
    const auto reach = [&](Assignment a) {
      if (reached.insert(a).second) open.emplace(model_.Ms(a), std::move(a));
    };
    reach(Cheapest(model_, 0));
    std::vector<Assignment> holding;
    for (int tries = 0; !open.empty() && tries < kTries && known_ && !OutOfTime(kRefineShare);) {
      const auto [ms, a] = std::move(open.extract(open.begin()).value());
      if (ms > kNearlyAsFast * model_.Ms(best)) break;
      for (size_t i = 0; i < layers(); ++i) {
        for (int s = 0; s < model_.schemes(); ++s) {
          Assignment next = a;
          next[i] = s;
          if (Exists(i, s)) reach(std::move(next));
        }
      }
      if (!timed_.insert(a).second) continue;
      EVOQ_TRY(Tell("trying further plans", std::max(static_cast<double>(tries) / kTries,
                                                     Elapsed() / (kRefineShare * job_.seconds))));
      tries += accuracies_.count(a) ? 0 : 1;
      EVOQ_ASSIGN(const bool holds, Holds(a, kRefineShare));
      if (holds) holding.push_back(a);
      if (holding.size() == kGroup) EVOQ_TRY(TryHolding(holding, best));
    }
    return TryHolding(holding, best);
  }

  Status TryHolding(std::vector<Assignment>& holding, Assignment& best) {
    bool moved = false;
    if (!holding.empty()) EVOQ_TRY(TryGroup(holding, best, moved));
    holding.clear();
    return {};
  }

  Status TryGroup(std::span<const Assignment> group, Assignment& best, bool& moved) {
    std::vector<Candidate> candidates;
    EVOQ_ASSIGN(Candidate current, Build(best));
    candidates.push_back(std::move(current));
    for (const Assignment& a : group) {
      if (OutOfTime()) return {};
      EVOQ_ASSIGN(Candidate candidate, Build(a));
      candidates.push_back(std::move(candidate));
    }
    EVOQ_ASSIGN(const std::vector<double> ms, Measure(candidates, Time(0.01, 1)));
    std::vector<size_t> order;
    for (size_t i = 0; i < group.size(); ++i) {
      if (ms[i + 1] < kFaster * ms[0]) order.push_back(i);
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return ms[a + 1] < ms[b + 1]; });
    for (size_t i : order) {
      EVOQ_ASSIGN(const bool holds, Holds(group[i], 1));
      if (!holds) continue;
      best = group[i];
      moved = true;
      break;
    }
    return {};
  }

  // The found plan, float32 and every uniform plan in turn; the fastest that keeps the limit wins.
  Status Contest(Assignment& best) {
    EVOQ_TRY(Tell("measuring the result", 0));
    std::vector<Assignment> plans = {best};
    for (int s = 0; s < model_.schemes(); ++s) {
      if (std::find(plans.begin(), plans.end(), Uniform(s)) == plans.end())
        plans.push_back(Uniform(s));
    }
    std::vector<Candidate> candidates;
    for (const Assignment& plan : plans) {
      if (!candidates.empty() && OutOfTime()) break;
      EVOQ_ASSIGN(Candidate candidate, Build(plan));
      candidates.push_back(std::move(candidate));
    }
    plans.resize(candidates.size());
    EVOQ_ASSIGN(const std::vector<double> ms, Measure(candidates, Time(0.05, 1)));
    size_t winner = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      TriedPlan tried{NameOf(plans[i]), ms[i], {}, false};
      // Slower ones need no accuracy, but for the table: what is known of them is told.
      if (i == 0 || ms[i] < ms[winner] || accuracies_.count(plans[i])) {
        EVOQ_ASSIGN(const std::optional<Accuracy> accuracy, AccuracyOf(plans[i], 1));
        if (accuracy) tried.accuracy = *accuracy;
        tried.keeps = accuracy && accuracy->Keeps(job_.limit);
        if (tried.keeps && ms[i] < ms[winner]) winner = i;
      }
      result_.tried.push_back(std::move(tried));
    }
    best = plans[winner];
    return {};
  }

  std::string NameOf(const Assignment& a) const {
    for (int s = 0; s < model_.schemes(); ++s) {
      if (a == Uniform(s)) return schemes_[static_cast<size_t>(s)]->name;
    }
    return "mixed";
  }

  const ChooseJob& job_;
  const Samples& samples_;
  const Answers& reference_;
  const Metric metric_;
  const Attribution attribution_;
  const double start_;
  std::vector<const QuantScheme*> schemes_;  // schemes of model_; float32 first
  std::vector<DType> forms_;                 // of model_
  Reasons refused_;                          // layer -> why a scheme does not take it
  CostModel model_;
  bool fastest_holds_ = false;  // the model's fastest plan keeps the limit
  bool known_ = true;           // whether it does was found out in time
  std::set<Assignment> timed_;  // in whole runs
  std::map<Assignment, Accuracy> accuracies_;
  ChosenPlan result_;
};

}  // namespace

Result<ChosenPlan> ChoosePrecisions(const ChooseJob& job, const Samples& samples,
                                    const Answers& reference, Metric metric) {
  if (Layers(job.graph).empty())
    return Unsupported("the model has no layer with weights: there is nothing to choose");
  Graph bound = job.graph;
  EVOQ_TRY(BindShapes(bound, job.shapes));
  return Chooser(job, bound, samples, reference, metric).Run();
}

}  // namespace evoq
