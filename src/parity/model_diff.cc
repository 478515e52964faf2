#include "parity/model_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "certify/sized_by_data.h"
#include "ops/op.h"
#include "parity/value_names.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr size_t kNamed = 6;  // names in a message
constexpr size_t kFactorSamples = 8;
// Channels count as rescaled where a factor for each explains three quarters of the difference or
// more, and some factor is off by so much.
constexpr double kExplained = 0.25, kFactorOff = 0.02;

std::vector<std::string> NamesOf(const Graph& graph, std::span<const ValueId> values) {
  std::vector<std::string> names;
  for (ValueId v : values) names.push_back(graph.value(v).name);
  return names;
}

std::string Listed(std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names.first(std::min(kNamed, names.size())))
    list += (list.empty() ? "" : ", ") + name;
  return names.size() > kNamed ? list + ", ..." : list.empty() ? "none" : list;
}

// Real values that nodes compute, and outputs of other numbers.
std::vector<ValueId> Comparable(const Graph& graph) {
  std::vector<ValueId> values = RealValues(graph);
  for (ValueId v : graph.outputs()) {
    const bool listed = std::find(values.begin(), values.end(), v) != values.end();
    if (!listed && graph.value(v).producer.valid() && IsNumbers(graph.value(v).type))
      values.push_back(v);
  }
  return values;
}

bool StoresFloat32(const TensorType& type) {
  return type.dtype == DType::kFloat32 && !type.quantized();
}

}  // namespace

double DiffedValue::own_share() const {
  if (!(whole.noise() > 0) || !std::isfinite(whole.noise())) return own.noise() > 0 ? 1 : 0;
  return std::min(1.0, own.noise() / whole.noise());
}

Result<ModelDiff> ModelDiff::Between(ComparedModel a, ComparedModel b,
                                     std::span<const std::vector<Tensor>> first) {
  if (first.empty()) return InvalidInput("no sample to compare {} and {} on", a.path, b.path);
  ModelDiff diff;
  diff.a_ = std::move(a);
  diff.b_ = std::move(b);
  EVOQ_TRY(diff.MatchInputs());
  EVOQ_TRY(diff.Pair());
  EVOQ_TRY(diff.SetAside(first[0]));
  EVOQ_TRY(diff.Prepare());
  EVOQ_TRY(diff.FindForms(first));
  EVOQ_TRY(diff.FindFactors(first.first(std::min(kFactorSamples, first.size()))));
  return diff;
}

// By name, else by position where there are as many.
Status ModelDiff::MatchInputs() {
  const std::vector<std::string> a = NamesOf(a_.graph, a_.graph.inputs()),
                                 b = NamesOf(b_.graph, b_.graph.inputs());
  std::vector<int> matched = MatchNames(a, b);
  const bool all = std::none_of(matched.begin(), matched.end(), [](int m) { return m < 0; });
  if (!all && a.size() != b.size())
    return InvalidInput("{} reads {}, {} reads {}: expected models of the same inputs", a_.path,
                        Listed(a), b_.path, Listed(b));
  for (size_t i = 0; i < b.size(); ++i)
    input_of_b_.push_back(all ? static_cast<size_t>(matched[i]) : i);
  return {};
}

Status ModelDiff::Pair() {
  const std::vector<ValueId> a = Comparable(a_.graph), b = Comparable(b_.graph);
  const std::vector<std::string> a_names = NamesOf(a_.graph, a), b_names = NamesOf(b_.graph, b);
  const std::vector<int> matched = MatchNames(a_names, b_names);
  std::vector<bool> used(a.size(), false);
  const auto& a_outputs = a_.graph.outputs();
  const auto& b_outputs = b_.graph.outputs();
  for (size_t i = 0; i < b.size(); ++i) {
    ValueId with = matched[i] < 0 ? ValueId() : a[static_cast<size_t>(matched[i])];
    const auto output = std::find(b_outputs.begin(), b_outputs.end(), b[i]);
    if (output != b_outputs.end() && !with.valid() && a_outputs.size() == b_outputs.size()) {
      const ValueId same = a_outputs[static_cast<size_t>(output - b_outputs.begin())];
      if (a_.graph.value(same).producer.valid()) with = same;
    }
    if (!with.valid()) {
      only_b_.push_back(b_names[i]);
      continue;
    }
    for (size_t k = 0; k < a.size(); ++k) used[k] = used[k] || a[k] == with;
    a_values_.push_back(with);
    b_values_.push_back(b[i]);
  }
  for (size_t k = 0; k < a.size(); ++k) {
    if (!used[k]) only_a_.push_back(a_names[k]);
  }
  if (!b_values_.empty()) return {};
  return InvalidInput(
      "no value of {} has the name of one of {}, and the outputs are not as many: {} has {}, {} "
      "has {}; expected two forms of one model, whose values keep their names",
      b_.path, a_.path, a_.path, Listed(a_names), b_.path, Listed(b_names));
}

// Leaves out the pairs whose sizes A's do not tell.
Status ModelDiff::SetAside(std::span<const Tensor> sample) {
  const std::set<ValueId> unsized = SizedByData(a_.graph, sample);
  std::vector<ValueId> a, b;
  for (size_t i = 0; i < a_values_.size(); ++i) {
    if (unsized.contains(a_values_[i])) {
      sized_by_data_.push_back(b_.graph.value(b_values_[i]).name);
    } else {
      a.push_back(a_values_[i]);
      b.push_back(b_values_[i]);
    }
  }
  if (b.empty())
    return InvalidInput("the sizes of all values of both {} and {} depend on the data: {}", a_.path,
                        b_.path, Listed(sized_by_data_));
  a_values_ = std::move(a);
  b_values_ = std::move(b);
  return {};
}

// Everything that follows from the pairs.
Status ModelDiff::Prepare() {
  values_.clear();
  exact_.clear();
  const std::vector<StretchBefore> stretches = Stretches(b_.graph, b_values_);
  for (size_t i = 0; i < b_values_.size(); ++i) {
    const Value& value = b_.graph.value(b_values_[i]);
    const Node& node = b_.graph.node(value.producer);
    DiffedValue& diffed = values_.emplace_back();
    diffed.name = value.name;
    diffed.a_name = a_.graph.value(a_values_[i]).name;
    diffed.step = node.name;
    diffed.op = node.op;
    diffed.type = DTypeName(value.type.dtype);
    diffed.output = b_.graph.IsOutput(b_values_[i]);
    diffed.real = value.type.quantized() || IsFloat(value.type.dtype);
    diffed.reads = stretches[i].reads;
    diffed.nodes = stretches[i].nodes;
    exact_.push_back(StoresFloat32(value.type));
  }
  a_tap_ = Tap(a_.graph, a_values_);
  b_tap_ = Tap(b_.graph, b_values_);
  EVOQ_ASSIGN(a_cut_, CutAt(a_.graph, a_values_));
  EVOQ_ASSIGN(b_cut_, CutAt(b_.graph, b_values_));
  EVOQ_ASSIGN(run_a_, a_.Runner(std::move(a_tap_.graph)));
  EVOQ_ASSIGN(run_b_, b_.Runner(std::move(b_tap_.graph)));
  EVOQ_ASSIGN(run_a_cut_, a_.Runner(std::move(a_cut_.graph)));
  EVOQ_ASSIGN(run_b_cut_, b_.Runner(std::move(b_cut_.graph)));
  return {};
}

Result<std::vector<Tensor>> ModelDiff::InputsOfB(std::span<const Tensor> inputs) const {
  std::vector<Tensor> given;
  for (size_t i = 0; i < input_of_b_.size(); ++i) {
    const Tensor& tensor = inputs[input_of_b_[i]];
    TensorType type = b_.graph.value(b_.graph.inputs()[i]).type;
    if (tensor.type().is_tensor()) type.shape = tensor.shape();
    if (type == tensor.type() || !tensor.type().is_tensor()) {
      given.push_back(tensor);
      continue;
    }
    EVOQ_ASSIGN(const Tensor real, ToFloat32(tensor));
    EVOQ_ASSIGN(Tensor converted,
                WithContext(InType(real, type), b_.graph.value(b_.graph.inputs()[i]).name));
    given.push_back(std::move(converted));
  }
  return given;
}

Result<ModelDiff::Ran> ModelDiff::RunBoth(std::span<const Tensor> inputs) {
  Ran ran;
  EVOQ_ASSIGN(const std::vector<Tensor> a, run_a_(inputs));
  for (size_t position : a_tap_.outputs) {
    EVOQ_ASSIGN(Tensor real, ToFloat32(a[position]));
    ran.a.push_back(std::move(real));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> of_b, InputsOfB(inputs));
  EVOQ_ASSIGN(const std::vector<Tensor> b, run_b_(of_b));
  for (size_t position : b_tap_.outputs) ran.b.push_back(b[position]);
  return ran;
}

// Keeps some of the pairs.
Status ModelDiff::Drop(const std::vector<bool>& keep) {
  std::vector<ValueId> a, b;
  std::vector<ValueForm> forms;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) {
      only_a_.push_back(values_[i].a_name);
      only_b_.push_back(values_[i].name);
      continue;
    }
    a.push_back(a_values_[i]);
    b.push_back(b_values_[i]);
    forms.push_back(std::move(forms_[i]));
  }
  if (b.empty())
    return InvalidInput("the values of {} and {} that have one name have other sizes: {}", a_.path,
                        b_.path, Listed(only_b_));
  a_values_ = std::move(a);
  b_values_ = std::move(b);
  forms_ = std::move(forms);
  return Prepare();
}

// Values of other sizes are no pair after all.
Status ModelDiff::FindForms(std::span<const std::vector<Tensor>> first) {
  EVOQ_ASSIGN(const Ran ran, RunBoth(first[0]));
  std::vector<bool> keep(ran.a.size(), false);
  forms_.resize(ran.a.size());
  for (size_t i = 0; i < ran.a.size(); ++i) {
    const bool permuted =
        values_[i].name != values_[i].a_name || ran.a[i].sizes() != ran.b[i].sizes();
    EVOQ_ASSIGN(std::optional<ValueForm> form, NearestForm(ran.a[i], ran.b[i], permuted));
    keep[i] = form.has_value();
    if (form) forms_[i] = std::move(*form);
  }
  return std::find(keep.begin(), keep.end(), false) == keep.end() ? Status() : Drop(keep);
}

// Each stretch of B on A's values, in `forms`: what it gives, by pair. `given`: what it got.
Result<std::vector<Tensor>> ModelDiff::Alone(std::span<const Tensor> inputs, const Ran& ran,
                                             std::span<const ValueForm> forms,
                                             std::vector<Tensor>* given) {
  EVOQ_ASSIGN(std::vector<Tensor> all, InputsOfB(inputs));
  for (size_t i = 0; i < ran.a.size(); ++i) {
    EVOQ_ASSIGN(Tensor as_b, WithContext(forms[i].ToB(ran.a[i], ran.b[i].type()), values_[i].name));
    if (b_cut_.givens[i] >= 0) all.push_back(as_b);
    if (given != nullptr) given->push_back(std::move(as_b));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> outputs, run_b_cut_(all));
  std::vector<Tensor> alone;
  for (size_t position : b_cut_.outputs) alone.push_back(outputs[position]);
  return alone;
}

// What A makes, stretch by stretch, of the values that B's stretches were given.
Result<std::vector<Tensor>> ModelDiff::RightFor(std::span<const Tensor> inputs, const Ran& ran,
                                                std::span<const Tensor> given) {
  if (std::find(exact_.begin(), exact_.end(), false) == exact_.end()) return ran.a;
  std::map<ValueId, Tensor> rounded;
  for (size_t i = 0; i < given.size(); ++i) {
    if (exact_[i] && rounded.count(a_values_[i])) continue;
    EVOQ_ASSIGN(rounded[a_values_[i]], forms_[i].ToA(given[i]));
  }
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  for (size_t i = 0; i < a_values_.size(); ++i) {
    const ValueId v = a_values_[i];
    if (a_cut_.givens[i] < 0) continue;
    TensorType type = a_.graph.value(v).type;
    type.shape = rounded.at(v).shape();
    EVOQ_ASSIGN(Tensor as_a, WithContext(InType(rounded.at(v), type), a_.graph.value(v).name));
    all.push_back(std::move(as_a));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> outputs, run_a_cut_(all));
  std::vector<Tensor> right;
  for (size_t i = 0; i < a_cut_.outputs.size(); ++i) {
    const bool as_it_was = std::all_of(values_[i].reads.begin(), values_[i].reads.end(),
                                       [&](size_t r) { return exact_[r]; });
    EVOQ_ASSIGN(Tensor real, ToFloat32(outputs[a_cut_.outputs[i]]));
    right.push_back(as_it_was ? ran.a[i] : std::move(real));
  }
  return right;
}

// Only linear operators read it, so that what is divided off its channels can be in their weights.
bool ModelDiff::MayBeRescaled(size_t i) const {
  const Value& value = b_.graph.value(b_values_[i]);
  if (b_.graph.IsOutput(b_values_[i]) || value.users.empty()) return false;
  return std::all_of(value.users.begin(), value.users.end(), [&](NodeId user) {
    const Node& node = b_.graph.node(user);
    return IsLinear(node) && node.input(0) == b_values_[i];
  });
}

namespace {

// Of each channel the least-squares factor between A's elements and B's; empty where factors
// explain nothing.
std::vector<float> FactorsOf(std::span<const Tensor> a, std::span<const Tensor> b, int axis) {
  const std::vector<int64_t> sizes = a[0].sizes();
  const int64_t channels = sizes[static_cast<size_t>(axis)];
  int64_t inner = 1;
  for (size_t k = static_cast<size_t>(axis) + 1; k < sizes.size(); ++k) inner *= sizes[k];
  std::vector<double> aa(static_cast<size_t>(channels)), ab(aa.size()), bb(aa.size());
  for (size_t s = 0; s < a.size(); ++s) {
    for (int64_t i = 0; i < a[s].elements(); ++i) {
      const auto c = static_cast<size_t>(i / inner % channels);
      const double x = a[s].data<float>()[i], y = b[s].data<float>()[i];
      aa[c] += x * x;
      ab[c] += x * y;
      bb[c] += y * y;
    }
  }
  std::vector<float> factors;
  double before = 0, after = 0, off = 0;
  for (size_t c = 0; c < aa.size(); ++c) {
    const double factor = aa[c] > 0 && ab[c] > 0 ? ab[c] / aa[c] : 1;
    before += aa[c] - 2 * ab[c] + bb[c];
    after += aa[c] - 2 * ab[c] / factor + bb[c] / (factor * factor);
    off = std::max(off, std::fabs(factor - 1));
    factors.push_back(static_cast<float>(factor));
  }
  if (!(after <= kExplained * before) || off < kFactorOff) factors.clear();
  return factors;
}

// The axis of channels of what a linear operator reads, in the order of axes that it reads.
int ReadChannelAxis(const Node& node, int rank) {
  return node.attrs.Int("channels_last") == 1 ? rank - 1 : ChannelAxis(node, rank);
}

}  // namespace

// Equalization (quant/equalize.h) multiplies channels of a value and divides the weights that read
// them. A factor counts where the readers come nearer with it: else it is an error.
Status ModelDiff::FindFactors(std::span<const std::vector<Tensor>> first) {
  std::vector<size_t> candidates;
  std::vector<int> axes;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!MayBeRescaled(i)) continue;
    const Value& value = b_.graph.value(b_values_[i]);
    const auto& perm = forms_[i].perm;
    const int rank = value.type.shape.ranked() ? value.type.shape.rank() : 0;
    const int axis = rank < 2 ? -1 : ReadChannelAxis(b_.graph.node(value.users[0]), rank);
    if (axis < 0 || static_cast<size_t>(rank) != forms_[i].a_sizes.size()) continue;
    candidates.push_back(i);
    axes.push_back(perm.empty() ? axis : static_cast<int>(perm[static_cast<size_t>(axis)]));
  }
  if (candidates.empty()) return {};
  std::vector<std::vector<Tensor>> a(candidates.size()), b(candidates.size());
  std::optional<Ran> ran;
  for (const std::vector<Tensor>& inputs : first) {
    EVOQ_ASSIGN(Ran sample, RunBoth(inputs));
    for (size_t k = 0; k < candidates.size(); ++k) {
      const size_t i = candidates[k];
      if (sample.a[i].sizes() != forms_[i].a_sizes) continue;
      EVOQ_ASSIGN(Tensor as_a, forms_[i].ToA(sample.b[i]));
      a[k].push_back(sample.a[i]);
      b[k].push_back(std::move(as_a));
    }
    if (!ran) ran = std::move(sample);
  }
  std::vector<ValueForm> with = forms_;
  bool any = false;
  for (size_t k = 0; k < candidates.size(); ++k) {
    if (a[k].empty()) continue;
    ValueForm& form = with[candidates[k]];
    form.factors = FactorsOf(a[k], b[k], axes[k]);
    form.channel_axis = axes[k];
    any = any || !form.factors.empty();
  }
  if (!any) return {};
  EVOQ_ASSIGN(const std::vector<Tensor> on, Alone(first[0], *ran, with));
  EVOQ_ASSIGN(const std::vector<Tensor> off, Alone(first[0], *ran, forms_));
  const auto noise = [&](size_t i, const Tensor& b_value) -> Result<double> {
    double least = std::numeric_limits<double>::infinity();
    for (const ValueForm* form : {&forms_[i], &with[i]}) {
      EVOQ_ASSIGN(const Tensor as_a, form->ToA(b_value));
      ValueError error;
      error.Add(ran->a[i].values<float>(), as_a.values<float>());
      least = std::min(least, error.noise());
    }
    return least;
  };
  std::vector<double> noise_on(values_.size()), noise_off(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    for (size_t r : values_[i].reads) {
      if (with[r].factors.empty()) continue;
      EVOQ_ASSIGN(const double one, noise(i, on[i]));
      EVOQ_ASSIGN(const double other, noise(i, off[i]));
      noise_on[r] += one;
      noise_off[r] += other;
    }
  }
  for (size_t i : candidates) {
    if (with[i].factors.empty() || !(noise_on[i] < noise_off[i])) continue;
    forms_[i] = with[i];
    values_[i].rescaled = true;
  }
  return {};
}

Result<SampleDiff> ModelDiff::Add(std::span<const Tensor> inputs) {
  EVOQ_ASSIGN(const Ran ran, RunBoth(inputs));
  for (size_t i = 0; i < ran.a.size(); ++i) {
    // Free sizes: the form is of the first sample's.
    if (forms_[i].perm.empty() || forms_[i].perm.size() == ran.a[i].sizes().size())
      forms_[i].a_sizes = ran.a[i].sizes();
  }
  std::vector<Tensor> given;
  EVOQ_ASSIGN(const std::vector<Tensor> alone, Alone(inputs, ran, forms_, &given));
  EVOQ_ASSIGN(const std::vector<Tensor> right, RightFor(inputs, ran, given));
  SampleDiff sample{std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < values_.size(); ++i) {
    EVOQ_ASSIGN(const Tensor b, WithContext(forms_[i].ToA(ran.b[i]), values_[i].name));
    EVOQ_ASSIGN(const Tensor own, WithContext(forms_[i].ToA(alone[i]), values_[i].name));
    const auto add = values_[i].real ? &ValueError::Add : &ValueError::AddElements;
    ValueError whole;
    (whole.*add)(ran.a[i].values<float>(), b.values<float>());
    values_[i].whole += whole;
    (values_[i].own.*add)(right[i].values<float>(), own.values<float>());
    if (values_[i].output) sample.sqnr_db = std::min(sample.sqnr_db, whole.sqnr_db());
  }
  return sample;
}

bool ModelDiff::narrows() const {
  for (int i = 0; i < b_.graph.value_count(); ++i) {
    const Value& value = b_.graph.value(ValueId{i});
    const bool used = value.producer.valid() || !value.users.empty();
    const bool bytes = DTypeBits(value.type.dtype) <= 8 && value.type.dtype != DType::kBool &&
                       value.type.dtype != DType::kUndefined;
    const bool real = IsFloat(value.type.dtype) && value.type.dtype != DType::kFloat64;
    if (used && (value.type.quantized() || bytes || (real && !StoresFloat32(value.type))))
      return true;
  }
  return false;
}

Result<std::pair<Tensor, Tensor>> ModelDiff::Both(size_t i, std::span<const Tensor> inputs) {
  EVOQ_ASSIGN(const Ran ran, RunBoth(inputs));
  EVOQ_ASSIGN(Tensor b, forms_[i].ToA(ran.b[i]));
  return std::pair{ran.a[i], std::move(b)};
}

}  // namespace evoq
