// For tests: a graph from its text form.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "graph/graph.h"
#include "reference/reference.h"

namespace evoq {

// Its types are inferred.
inline Graph Parsed(std::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Status typed = InferTypes(*graph);
  EXPECT_TRUE(typed) << typed.error().message();
  return *std::move(graph);
}

}  // namespace evoq
