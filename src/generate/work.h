// What a run of a language model has to do at least: products, and bytes that must be read.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "llm/phase.h"
#include "program/model.h"

namespace evoq {

// Of one part of the model (llm/parts.h), or of all.
struct Work {
  // Multiply-accumulates by the peak that their kernels are measured against (Peak): those of the
  // tokens, of attention only what each token sees.
  std::array<int64_t, 4> macs = {};
  int64_t weight_bytes = 0;  // constants, read once, as stored and with their scales; of tables the
                             // rows that are looked up, of experts the most that tokens can choose
  int64_t cache_bytes = 0;   // keys and values that tokens see, read once, and what is added

  int64_t all_macs() const;
  int64_t bytes() const { return weight_bytes + cache_bytes; }
  void Add(const Work& more);
};

struct PartWork {
  std::string part;
  Work work;
};

// By part, in ModelParts()'s order; parts without work are left out. `program`: of the run, at
// InputsOf(phase)'s shapes. A constant that several steps read whole counts for the first.
std::vector<PartWork> WorkOf(const Program& program, const Phase& phase);
Work Sum(const std::vector<PartWork>& parts);

}  // namespace evoq
