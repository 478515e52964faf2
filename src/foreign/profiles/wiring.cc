#include "foreign/profiles/wiring.h"

#include <algorithm>

namespace evoq {
namespace {

bool AreNamed(const std::vector<ForeignTensor>& tensors) {
  return !tensors.empty() && !tensors[0].name.empty();
}

}  // namespace

Wiring::Wiring(const ForeignRun& run) : run_(&run) {
  const auto note = [](const std::vector<ForeignTensor>& tensors, size_t layer, Users& users) {
    for (const ForeignTensor& tensor : tensors) {
      if (!tensor.name.empty()) users[tensor.name].push_back(layer);
    }
  };
  for (size_t i = 0; i < run.layers.size(); ++i) {
    note(run.layers[i].inputs, i, readers_);
    note(run.layers[i].outputs, i, writers_);
  }
}

std::vector<size_t> Wiring::Readers(size_t layer) const {
  const std::vector<ForeignTensor>& outputs = run_->layers[layer].outputs;
  std::vector<size_t> readers;
  if (!AreNamed(outputs)) {
    if (run_->in_order && layer + 1 < run_->layers.size()) readers.push_back(layer + 1);
    return readers;
  }
  for (const ForeignTensor& tensor : outputs) {
    const auto it = readers_.find(tensor.name);
    if (it == readers_.end()) continue;
    readers.insert(readers.end(), std::upper_bound(it->second.begin(), it->second.end(), layer),
                   it->second.end());
  }
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

std::vector<size_t> Wiring::Writers(size_t layer) const {
  const std::vector<ForeignTensor>& inputs = run_->layers[layer].inputs;
  std::vector<size_t> writers;
  if (!AreNamed(inputs)) {
    if (run_->in_order && layer > 0) writers.push_back(layer - 1);
    return writers;
  }
  for (const ForeignTensor& tensor : inputs) {
    const auto it = writers_.find(tensor.name);
    if (it == writers_.end()) continue;
    writers.insert(writers.end(), it->second.begin(),
                   std::lower_bound(it->second.begin(), it->second.end(), layer));
  }
  std::sort(writers.begin(), writers.end());
  writers.erase(std::unique(writers.begin(), writers.end()), writers.end());
  return writers;
}

bool Wiring::DependsOn(size_t later, size_t earlier) const {
  // From `later` back. What was written before `earlier` cannot lead there.
  std::vector<bool> seen(later - earlier);
  std::vector<size_t> open = {later};
  while (!open.empty()) {
    const size_t layer = open.back();
    open.pop_back();
    if (layer == earlier) return true;
    for (const ForeignTensor& input : run_->layers[layer].inputs) {
      const auto it = writers_.find(input.name);
      if (it == writers_.end()) continue;
      const auto after = std::lower_bound(it->second.begin(), it->second.end(), layer);
      if (after == it->second.begin()) continue;
      const size_t writer = *(after - 1);  // the last one before it was read
      if (writer < earlier || seen[writer - earlier]) continue;
      seen[writer - earlier] = true;
      open.push_back(writer);
    }
  }
  return false;
}

}  // namespace evoq
