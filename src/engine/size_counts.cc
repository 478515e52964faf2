#include "engine/size_counts.h"

#include <algorithm>

namespace evoq {

double ElementsOf(const InputShapes& shapes) {
  double elements = 0;
  for (const auto& [name, sizes] : shapes) {
    double product = 1;
    for (const int64_t size : sizes) product *= static_cast<double>(size);
    elements += product;
  }
  return elements;
}

SizeCount& SizeCounts::Of(const InputShapes& shapes) {
  const auto found = known_.find(shapes);
  if (found != known_.end()) return found->second;
  if (known_.size() >= kMostSizes) return others_;
  SizeCount& fresh = known_[shapes];
  fresh.shapes = shapes;
  return fresh;
}

void SizeCounts::Ran(SizeCount& of, bool padded, std::optional<double> waited_ms) {
  ++of.runs, ++sums_.runs;
  if (padded) ++of.padded, ++sums_.padded;
  if (!waited_ms) return;
  ++of.misses, ++sums_.misses;
  sums_.miss_ms += *waited_ms;
  sums_.worst_miss_ms = std::max(sums_.worst_miss_ms, *waited_ms);
}

void SizeCounts::Prepared(SizeCount& of, double ms, bool beside) {
  of.prepare_ms = ms;
  if (!beside) return;
  ++sums_.beside;
  sums_.beside_ms += ms;
}

GearReport SizeCounts::Report() const {
  GearReport report = sums_;
  for (const auto& [shapes, count] : known_) report.sizes.push_back(count);
  report.other_runs = others_.runs;
  return report;
}

std::string CountsText(const GearReport& report) {
  std::string text = "# evoq sizes: runs, then the shape of each input\n";
  for (const SizeCount& count : report.sizes) {
    if (count.runs == 0) continue;
    text += std::to_string(count.runs);
    for (const auto& [name, sizes] : count.shapes) {
      text += " " + name;
      for (size_t i = 0; i < sizes.size(); ++i)
        text += (i == 0 ? "=" : "x") + std::to_string(sizes[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace evoq
