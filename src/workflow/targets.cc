#include "workflow/targets.h"

#include <algorithm>
#include <cmath>

namespace evoq {

Deviation& Deviation::operator+=(const Deviation& other) {
  elements += other.elements;
  squared += other.squared;
  absolute += other.absolute;
  sum += other.sum;
  squares += other.squares;
  return *this;
}

double Deviation::mse() const { return elements > 0 ? squared / static_cast<double>(elements) : 0; }

double Deviation::mae() const {
  return elements > 0 ? absolute / static_cast<double>(elements) : 0;
}

std::optional<double> Deviation::r2() const {
  if (elements == 0) return std::nullopt;
  const double spread = squares - sum * sum / static_cast<double>(elements);
  if (!(spread > 1e-12 * squares)) return std::nullopt;
  return 1 - squared / spread;
}

DatasetOptions TargetOptions(DatasetOptions options) {
  options.labels.clear();
  options.targets = true;
  return options;
}

InputSpec TargetSpec(const std::string& name) { return {.name = name, .ranked = false}; }

Result<Targets> Targets::Open(const std::vector<std::string>& sources, const Graph& graph,
                              const DatasetOptions& options, const Dataset& data, int64_t rows) {
  Targets targets;
  std::vector<InputSpec> specs;
  for (ValueId id : graph.outputs()) {
    targets.names_.push_back(graph.value(id).name);
    specs.push_back(TargetSpec(targets.names_.back()));
  }
  EVOQ_ASSIGN(targets.data_, OpenInputs(sources, specs, TargetOptions(options)));
  const int64_t count = targets.data_->size();
  targets.rows_ = count == data.size() ? 1 : rows;
  if (count != data.size() && count != data.size() * rows && count != data.rows())
    return InvalidInput("{}: {} targets of {} {}: expected one for each", sources[0], count,
                        data.rows(), rows == 1 ? "samples" : "rows");
  return targets;
}

Result<std::vector<Deviation>> Targets::Of(int64_t index,
                                           const std::vector<Tensor>& outputs) const {
  std::vector<Deviation> found(outputs.size());
  std::vector<std::vector<float>> wanted(outputs.size());
  std::string name;
  for (int64_t r = 0; r < rows_; ++r) {
    EVOQ_ASSIGN(const Sample row, data_->At(index * rows_ + r));
    if (r == 0) name = row.name;
    for (size_t o = 0; o < wanted.size(); ++o) {
      EVOQ_ASSIGN(const Tensor real, WithContext(ToFloat32(row.inputs.at(o)), row.name));
      const std::span<const float> values = real.values<float>();
      wanted[o].insert(wanted[o].end(), values.begin(), values.end());
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    EVOQ_ASSIGN(const Tensor real, WithContext(ToFloat32(outputs[o]), names_[o]));
    const std::span<const float> given = real.values<float>();
    if (given.size() != wanted[o].size())
      return InvalidInput("{}: a target of {} numbers, output {} is {}", name, wanted[o].size(),
                          names_[o], outputs[o].type().ToString());
    Deviation& d = found[o];
    d.elements = static_cast<int64_t>(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      const double target = wanted[o][i], off = given[i] - target;
      d.squared += off * off;
      d.absolute += std::fabs(off);
      d.sum += target;
      d.squares += target * target;
    }
  }
  return found;
}

}  // namespace evoq
