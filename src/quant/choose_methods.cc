#include "quant/choose_methods.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

constexpr int kEach = 4;        // one sample of so many judges
constexpr double kGain = 0.1;   // dB that a method must bring
constexpr double kExact = 200;  // dB of outputs without an error

using Methods = std::vector<const QuantMethod*>;

// Those samples of all whose number modulo kEach is the last one, or the others.
SamplesFn Part(const SamplesFn& all, bool judging) {
  return [all, judging](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    int64_t i = 0;
    return all([&](std::span<const Tensor> inputs) -> Status {
      return (i++ % kEach == kEach - 1) == judging ? use(inputs) : Status();
    });
  };
}

Result<int> Count(const SamplesFn& samples) {
  int count = 0;
  EVOQ_TRY(samples([&](std::span<const Tensor>) -> Status {
    ++count;
    return {};
  }));
  return count;
}

class Search {
 public:
  Search(const QuantScheme& scheme, const Graph& graph, const Ranges& ranges,
         const QuantizeOptions& options, const MethodData& data, const MethodSearchOptions& search)
      : scheme_(scheme),
        graph_(graph),
        ranges_(ranges),
        options_(options),
        observed_(data),
        judged_(Part(data.samples, true)),
        search_(search),
        begun_(search.seconds()) {
    observed_.samples = Part(data.samples, false);
  }

  Result<MethodSearch> Run() {
    EVOQ_ASSIGN(found_.observed, Count(observed_.samples));
    EVOQ_ASSIGN(found_.judged, Count(judged_));
    if (found_.judged == 0)
      return Fail(ErrorCode::kUsage,
                  "--method auto judges by every {}th sample and was given {}: it needs {} or more",
                  kEach, found_.observed, kEach);
    if (!ranges_.empty()) {
      EVOQ_ASSIGN(ranges_,
                  Calibrate(graph_, observed_.prepare, observed_.samples, observed_.calibration));
    }
    EVOQ_ASSIGN(float_, observed_.prepare(graph_));
    EVOQ_TRY(Try({}));
    if (!found_.tried[0].why_not.empty())
      return Fail(ErrorCode::kInternal, "--method none: {}", found_.tried[0].why_not);
    for (const QuantMethod* method : Of(MethodStage::kFloat)) EVOQ_TRY(Try(With(method)));
    for (const MethodStage stage : {MethodStage::kRounding, MethodStage::kCorrection}) {
      const Methods before = found_.chosen;
      for (const QuantMethod* method : Of(stage)) {
        Methods one = before;
        one.push_back(method);
        EVOQ_TRY(Try(std::move(one)));
      }
      if (stage != MethodStage::kRounding || found_.chosen.size() == before.size()) continue;
      for (const QuantMethod* method : Of(stage)) {
        if (method != found_.chosen.back()) EVOQ_TRY(Try(With(method)));
      }
    }
    return std::move(found_);
  }

 private:
  Methods Of(MethodStage stage) const {
    Methods methods;
    for (const QuantMethod* method : AllMethods()) {
      if (method->stage == stage && method->for_auto && method->refuses(scheme_, options_).empty())
        methods.push_back(method);
    }
    return methods;
  }

  Methods With(const QuantMethod* method) const {
    Methods methods = found_.chosen;
    methods.push_back(method);
    return methods;
  }

  // Of the time, what the stages up to this one may take, so that each gets some.
  static double ShareOf(MethodStage stage) {
    switch (stage) {
      case MethodStage::kFloat: return 0.3;
      case MethodStage::kRounding: return 0.8;
      case MethodStage::kCorrection: return 1;
    }
    return 1;
  }

  // The error is that of `before`; a trial that fails says why.
  Status Try(Methods methods) {
    const double begun = search_.seconds();
    const double share = methods.empty() ? 1 : ShareOf(methods.back()->stage);
    if (!found_.tried.empty() && begun - begun_ > share * search_.limit_s) {
      found_.out_of_time = true;
      return {};
    }
    TriedMethods tried{.names = NamesOf(methods)};
    if (search_.before) EVOQ_TRY(search_.before(tried.names));
    const Result<double> sqnr = Judge(methods);
    tried.seconds = search_.seconds() - begun;
    if (sqnr) {
      tried.sqnr_db = *sqnr;
      tried.taken = found_.tried.empty() || *sqnr >= best_ + kGain;
    } else {
      tried.why_not = sqnr.error().message();
    }
    if (tried.taken) {
      best_ = tried.sqnr_db;
      found_.chosen = std::move(methods);
    }
    found_.tried.push_back(std::move(tried));
    return {};
  }

  // The mean over the outputs that count.
  Result<double> Judge(const Methods& methods) {
    Graph quantized = graph_;
    EVOQ_TRY(QuantizeBy(scheme_, MethodChoice(methods), quantized, ranges_, options_, observed_));
    EVOQ_ASSIGN(const RunFn run, observed_.prepare(quantized));
    std::vector<double> signal, noise;
    EVOQ_TRY(judged_([&](std::span<const Tensor> inputs) -> Status {
      EVOQ_ASSIGN(const std::vector<Tensor> wanted, float_(inputs));
      EVOQ_ASSIGN(const std::vector<Tensor> got, run(inputs));
      signal.resize(wanted.size());
      noise.resize(wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (!Counts(i, wanted[i]) || wanted[i].type() != got[i].type()) continue;
        const auto a = wanted[i].values<float>(), b = got[i].values<float>();
        for (size_t k = 0; k < a.size(); ++k) {
          signal[i] += static_cast<double>(a[k]) * a[k];
          noise[i] += std::pow(static_cast<double>(a[k]) - b[k], 2);
        }
      }
      return {};
    }));
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < signal.size(); ++i) {
      if (!(signal[i] > 0)) continue;
      ++count;
      sum += noise[i] > 0 ? std::min(kExact, 10 * std::log10(signal[i] / noise[i])) : kExact;
    }
    if (count == 0) return InvalidInput("no float32 output is other than 0 on the samples");
    return sum / count;
  }

  bool Counts(size_t i, const Tensor& output) const {
    const bool asked =
        search_.outputs.empty() || std::ranges::find(search_.outputs, i) != search_.outputs.end();
    return asked && output.type().is_tensor() && output.dtype() == DType::kFloat32;
  }

  const QuantScheme& scheme_;
  const Graph& graph_;
  Ranges ranges_;
  const QuantizeOptions& options_;
  MethodData observed_;
  SamplesFn judged_;
  const MethodSearchOptions& search_;
  const double begun_;
  RunFn float_;
  double best_ = 0;
  MethodSearch found_;
};

}  // namespace

std::string NamesOf(std::span<const QuantMethod* const> methods) {
  std::string names;
  for (const QuantMethod* method : methods)
    names += (names.empty() ? "" : ",") + std::string(method->name);
  return names.empty() ? "none" : names;
}

Result<MethodSearch> ChooseMethods(const QuantScheme& scheme, const Graph& graph,
                                   const Ranges& ranges, const QuantizeOptions& options,
                                   const MethodData& data, const MethodSearchOptions& search) {
  if (!data.samples || !data.prepare)
    return Fail(ErrorCode::kUsage, "--method auto needs samples to judge by");
  return Search(scheme, graph, ranges, options, data, search).Run();
}

}  // namespace evoq
