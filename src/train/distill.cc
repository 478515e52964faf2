#include "train/distill.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

}  // namespace evoq
