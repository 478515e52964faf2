// Which layer of a run reads what another one writes.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "foreign/profiles/foreign_run.h"

namespace evoq {

// By names of tensors. The run must outlive it.
class Wiring {
 public:
  explicit Wiring(const ForeignRun& run);

  // Layers behind `layer` that read what it writes, or before it that write what it reads, in order
  // of execution: where its tensors have no names, the next one, or the one before.
  std::vector<size_t> Readers(size_t layer) const;
  std::vector<size_t> Writers(size_t layer) const;

  // Whether layer `later` computes from what `earlier` wrote, through any layers between them.
  // False where tensors are not named.
  bool DependsOn(size_t later, size_t earlier) const;

 private:
  using Users = std::unordered_map<std::string_view, std::vector<size_t>>;  // in order of execution
  const ForeignRun* run_;
  Users readers_, writers_;  // by tensor
};

}  // namespace evoq
