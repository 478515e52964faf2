// Which sizes to prepare a model for, of those that come (docs/dynamic.md).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace evoq {

// A size that came: its batch, how often, and what a run takes.
struct GearItem {
  int64_t samples = 1;
  int64_t runs = 0;
  double ms = 0;
};

// Sizes that differ in their batch alone, by ascending batch. `pads`: a prepared one of 2 samples
// or more serves the others, larger ones in pieces.
struct GearFamily {
  std::vector<GearItem> items;
  bool pads = false;
};

struct ChosenGears {
  double total_ms = 0;                           // of all runs
  std::vector<std::pair<size_t, size_t>> gears;  // family, item
};

// For at most 0, 1, ... `most` gears (no more than there are items) those with the least time for
// all runs, the fewest of them:
// an item is served by itself, by the smallest gear of its family that holds it, in pieces by the
// largest, or else waits `prepare_ms` each time. Dynamic programming over the items of a family,
// then over families: exact, with O(most * items^2) steps.
std::vector<ChosenGears> ChooseGears(std::span<const GearFamily> families, size_t most,
                                     double prepare_ms);

}  // namespace evoq
