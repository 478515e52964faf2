#include "train/distill.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"

namespace evoq {
namespace {

// log softmax(scores / temperature).
std::vector<double> LogShares(std::span<const float> scores, double temperature) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float s : scores) sum += std::exp((s - largest) / temperature);
  std::vector<double> logs;
  for (const float s : scores) logs.push_back((s - largest) / temperature - std::log(sum));
  return logs;
}

// Computed real numbers (or integers that stand for them), with samples along the first axis.
bool IsFeature(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const bool real = value.type.quantized() || value.type.dtype == DType::kFloat32;
  return value.producer.valid() && real && value.type.shape.ranked() && value.type.shape.rank() > 0;
}

// Whether a sample of both may have the same sizes.
bool SameSample(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int d = 1; d < a.rank(); ++d) {
    if (a[d].known() && b[d].known() && a[d].value != b[d].value) return false;
  }
  return true;
}

// The value that an option names. Errors: kUsage.
Result<ValueId> FeatureNamed(const Graph& graph, const std::string& name, const std::string& option,
                             const char* whose) {
  const ValueId id = graph.FindValue(name);
  if (!id.valid())
    return Fail(ErrorCode::kUsage, "--distill-features {}: {} has no value {}", option, whose,
                name);
  if (!IsFeature(graph, id))
    return Fail(ErrorCode::kUsage,
                "--distill-features {}: {} of {} is {}, expected float32 numbers that are computed "
                "for each sample",
                option, name, whose, graph.value(id).type.ToString());
  return id;
}

// Calls use(id) for what the graph computes, in the order of execution.
template <typename Use>
void EachComputed(const Graph& graph, const Use& use) {
  for (NodeId node : graph.order()) {
    for (ValueId out : graph.node(node).outputs) {
      if (out.valid()) use(out);
    }
  }
}

}  // namespace

double AddDistillation(std::span<const float> scores, std::span<const float> teacher,
                       float temperature, float factor, float* gradient) {
  const double t = temperature;
  const std::vector<double> log_p = LogShares(teacher, t), log_q = LogShares(scores, t);
  double loss = 0;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double p = std::exp(log_p[j]), q = std::exp(log_q[j]);
    if (p > 0) loss += p * (log_p[j] - log_q[j]);
    gradient[j] += static_cast<float>(factor * t * (q - p));
  }
  return t * t * loss;
}

double AddFeatureDistillation(std::span<const float> values, float step,
                              std::span<const float> teacher, float factor, float* gradient) {
  double length = 0, distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double d = double{step} * values[i] - teacher[i];
    length += double{teacher[i]} * teacher[i];
    distance += d * d;
  }
  if (length == 0) length = 1;
  const auto scale = static_cast<float>(2 * factor / length);
  for (size_t i = 0; i < values.size(); ++i) gradient[i] += scale * (step * values[i] - teacher[i]);
  return distance / length;
}

Result<std::vector<FeaturePair>> PairFeatures(const Graph& own, const Graph& teacher,
                                              std::span<const std::string> wanted) {
  std::map<int32_t, std::string> chosen;  // value of `own` -> that of the teacher
  for (const std::string& option : wanted) {
    if (const size_t equals = option.find('='); equals != std::string::npos) {
      EVOQ_ASSIGN(const ValueId a,
                  FeatureNamed(own, option.substr(0, equals), option, "the model"));
      const std::string name = option.substr(equals + 1);
      EVOQ_ASSIGN(const ValueId b, FeatureNamed(teacher, name, option, "the teacher"));
      const Shape &its = own.value(a).type.shape, &taught = teacher.value(b).type.shape;
      if (!SameSample(its, taught))
        return Fail(ErrorCode::kUsage,
                    "--distill-features {}: {} in the model, {} in the teacher, expected the same "
                    "sizes behind the batch",
                    option, its.ToString(), taught.ToString());
      chosen[a.index] = name;
      continue;
    }
    bool any = false;
    EachComputed(own, [&](ValueId id) {
      const std::string& name = own.value(id).name;
      if (!GlobMatch(option, name) || !IsFeature(own, id)) return;
      const ValueId b = teacher.FindValue(name);
      if (!b.valid() || !IsFeature(teacher, b)) return;
      if (!SameSample(own.value(id).type.shape, teacher.value(b).type.shape)) return;
      any = true;
      chosen[id.index] = name;
    });
    if (!any)
      return Fail(
          ErrorCode::kUsage,
          "--distill-features {}: the model and its teacher compute no value of such a name "
          "with the same sizes; OWN=TEACHER pairs values of different names",
          option);
  }
  std::vector<FeaturePair> pairs;
  EachComputed(own, [&](ValueId id) {
    const auto pair = chosen.find(id.index);
    if (pair != chosen.end()) pairs.push_back({own.value(id).name, pair->second});
  });
  return pairs;
}

}  // namespace evoq
