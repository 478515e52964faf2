// Which methods pay for a model and a scheme, by trying them: `--method auto`.
#pragma once

#include "quant/method.h"

namespace evoq {

// One trial: what the quantized model's outputs have over the float model's on samples that nothing
// was observed on.
struct TriedMethods {
  std::string names;  // "awq,gptq"; "none"
  double sqnr_db = 0;
  double seconds = 0;   // of quantizing and judging
  bool taken = false;   // it is better than all before it
  std::string why_not;  // why there is no sqnr_db; "": there is
};

struct MethodSearch {
  std::vector<const QuantMethod*> chosen;  // in the order of their stages
  std::vector<TriedMethods> tried;
  bool out_of_time = false;      // methods were left untried
  int observed = 0, judged = 0;  // samples of each kind
};

struct MethodSearchOptions {
  // Outputs of the graph that count; empty: all of float32.
  std::vector<size_t> outputs = {};
  double limit_s = 60;              // no trial begins later, but for the first
  std::function<double()> seconds;  // since any moment
  std::function<Status(const std::string& names)> before;  // each trial; may be null
};

// "a,b,c" of methods in this order; "none" of no method.
std::string NamesOf(std::span<const QuantMethod* const> methods);

// Every fourth sample judges, the others are what methods observe; ranges are observed anew on
// these. None at all is tried first, then stage by stage: float methods each beside those that were
// taken, of the others each alone, and rounding ones then behind the one that was taken. A method
// is taken where the outputs' mean SQNR grows by a tenth of a dB or more. Those that refuse the
// scheme are no trials. Errors: kUsage for fewer than 4 samples; those of running the graph without
// any method, and of `before`.
Result<MethodSearch> ChooseMethods(const QuantScheme& scheme, const Graph& graph,
                                   const Ranges& ranges, const QuantizeOptions& options,
                                   const MethodData& data, const MethodSearchOptions& search);

}  // namespace evoq
