#include "parity/output_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace evoq {
namespace {

// Probabilities of 0, as softmax on integers gives them, have no logarithm.
constexpr double kLeast = 1e-9;

// Natural logarithms of the probabilities that scores stand for: of scores that are probabilities
// already, else of softmax.
std::vector<double> LogProbabilities(std::span<const float> scores, bool probabilities) {
  std::vector<double> logs(scores.begin(), scores.end());
  if (probabilities) {
    for (double& p : logs) p = std::log(std::max(p, kLeast));
    return logs;
  }
  const double most = *std::ranges::max_element(logs);
  double sum = 0;
  for (double& score : logs) sum += std::exp(score -= most);
  for (double& score : logs) score -= std::log(sum);
  return logs;
}

bool AreProbabilities(std::span<const float> scores) {
  double sum = 0;
  for (const float p : scores) {
    if (!(p >= 0)) return false;
    sum += p;
  }
  return std::fabs(sum - 1) < 1e-3;
}

double SqnrDb(const Energy& e) {
  if (e.noise == 0) return std::numeric_limits<double>::infinity();
  if (e.signal == 0 || !std::isfinite(e.noise)) return -1000;
  return std::max(-1000.0, 10 * std::log10(e.signal / e.noise));
}

}  // namespace

Status OutputErrors::AddScores(const Tensor& right, const Tensor& got,
                               std::span<const int64_t> next) {
  EVOQ_ASSIGN(const Tensor p_scores, ToFloat32(right));
  EVOQ_ASSIGN(const Tensor q_scores, ToFloat32(got));
  const auto rows = next.empty() ? static_cast<size_t>(RowsOf(right, rows_)) : next.size();
  const auto elements = static_cast<size_t>(p_scores.elements());
  if (p_scores.elements() != q_scores.elements() || elements == 0 || elements % rows != 0)
    return InvalidInput("output 0 is {}, expected {} as in the float model", got.type().ToString(),
                        right.type().ToString());
  const size_t classes = elements / rows;
  for (size_t row = 0; row < rows; ++row) {
    const auto p_row = p_scores.values<float>().subspan(row * classes, classes);
    const auto q_row = q_scores.values<float>().subspan(row * classes, classes);
    const bool probabilities = AreProbabilities(p_row);
    const std::vector<double> p = LogProbabilities(p_row, probabilities);
    const std::vector<double> q = LogProbabilities(q_row, probabilities);
    for (size_t c = 0; c < classes; ++c) kl_ += std::exp(p[c]) * (p[c] - q[c]);
    ++distributions_;
    if (next.empty()) continue;
    if (next[row] < 0 || next[row] >= static_cast<int64_t>(classes))
      return InvalidInput("token {} of a model with {} of them", next[row], classes);
    nll_ -= q[static_cast<size_t>(next[row])];
  }
  return {};
}

Status OutputErrors::Add(std::span<const Tensor> right, std::span<const Tensor> got,
                         std::span<const std::optional<int64_t>> labels,
                         std::span<const int64_t> next) {
  if (right.size() != got.size() || right.empty())
    return InvalidInput("{} outputs, the float model has {}", got.size(), right.size());
  energies_.resize(right.size());
  cosines_.resize(right.size());
  for (size_t o = 0; o < right.size(); ++o) {
    energies_[o] += EnergyOf(right[o], got[o]);
    if (!right[o].type().is_tensor() || !IsFloat(right[o].dtype())) continue;
    EVOQ_ASSIGN(const Tensor a, ToFloat32(right[o]));
    EVOQ_ASSIGN(const Tensor b, ToFloat32(got[o]));
    if (a.elements() == b.elements()) cosines_[o].Add(a.values<float>(), b.values<float>());
  }
  if (scores_) EVOQ_TRY(AddScores(right[0], got[0], next));
  return AddAnswers(ClassesOf(right[0], rows_), ClassesOf(got[0], rows_), labels,
                    right[0].elements());
}

Status OutputErrors::AddAnswers(std::span<const int64_t> right, std::span<const int64_t> got,
                                std::span<const std::optional<int64_t>> labels, int64_t elements) {
  const int64_t classes = elements / static_cast<int64_t>(right.size());
  if (metric_ == Metric::kTop1 && !labels.empty() && labels.size() != got.size())
    return InvalidInput("{} labels for {} answers of the model", labels.size(), got.size());
  for (size_t i = 0; i < std::min(right.size(), got.size()); ++i) {
    if (metric_ == Metric::kAgreement) {
      right_ += got[i] == right[i];
      ++counted_;
    }
    if (metric_ != Metric::kTop1 || labels.empty() || !labels[i]) continue;
    if (*labels[i] < 0 || *labels[i] >= classes)
      return InvalidInput("label {} of a model with {} classes", *labels[i], classes);
    right_ += got[i] == *labels[i];
    ++counted_;
  }
  return {};
}

OutputError OutputErrors::Mean() const {
  OutputError mean;
  mean.sqnr_db = std::numeric_limits<double>::infinity();
  for (size_t o = 0; o < energies_.size(); ++o) {
    const Energy& e = energies_[o];
    mean.sqnr_db = std::min(mean.sqnr_db, SqnrDb(e));
    if (cosines_[o].elements() > 0) mean.cosine = std::min(mean.cosine, cosines_[o].cosine());
    if (e.noise > 0) mean.noise += e.signal > 0 ? e.noise / e.signal : 1;
  }
  if (distributions_ > 0) mean.kl = std::max(0.0, kl_ / static_cast<double>(distributions_));
  if (metric_ == Metric::kPerplexity && distributions_ > 0)
    mean.metric = std::exp(nll_ / static_cast<double>(distributions_));
  if (counted_ > 0) mean.metric = static_cast<double>(right_) / static_cast<double>(counted_);
  return mean;
}

}  // namespace evoq
