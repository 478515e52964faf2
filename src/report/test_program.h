// Programs made up from a graph's text, for the tests of this room.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "graph/graph.h"
#include "program/model.h"

namespace evoq {

// Runs the nodes of these names, in this order. `arena`: values that have a place there, by name.
inline Program ProgramOf(const std::string& text, const std::vector<std::string>& nodes,
                         std::initializer_list<std::pair<const char*, int64_t>> arena = {}) {
  auto graph = ParseGraph(text);
  EVOQ_CHECK(graph.has_value(), "{}", graph ? "" : graph.error().message());
  Program program;
  for (const std::string& name : nodes) {
    Step& step = program.steps.emplace_back();
    step.node = graph->FindNode(name);
    EVOQ_CHECK(step.node.valid(), "{}", name);
  }
  program.placements.resize(graph->value_count());
  for (const auto& [name, offset] : arena)
    program.placements[graph->FindValue(name).index] = {Placement::Kind::kArena, offset};
  program.graph = std::make_shared<const Graph>(std::move(*graph));
  return program;
}

// The values a, its view v, and b live in the arena: a from `first` to `third`, b from `second` to
// `last`, which makes 128, 256, 256 and 128 live bytes.
inline Program ProgramWithAView() {
  return ProgramOf(R"(graph g
input %x: float32[4, 8]
first: %a: float32[4, 8] = Relu(%x)
view: %v: float32[32] = Flatten(%a)
second: %b: float32[4, 8] = Neg(%x)
third: %c: float32[32] = Abs(%v)
last: %d: float32[4, 8] = Relu(%b)
output %c
output %d
)",
                   {"first", "second", "third", "last"}, {{"a", 0}, {"v", 0}, {"b", 128}});
}

}  // namespace evoq
