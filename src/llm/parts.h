// What of a language model a node or a weight is for: the parts that reports sum up by.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace evoq {

// Names of parts, in the order in which reports show them. The last one is what no other is.
std::span<const char* const> ModelParts();

// One of ModelParts(), told by the node's operator and name: those of evoq's importers, and the
// paths of modules that exporters write.
std::string_view PartOf(const Node& node);

// The part of a constant: that of the nodes that read it, conversions and Transposes passed by. One
// that several parts read: their names joined by " + ".
std::string PartOf(const Graph& graph, ValueId constant);

}  // namespace evoq
