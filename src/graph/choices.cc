#include "graph/choices.h"

namespace evoq {

std::string_view ChoiceOf(const Graph& graph, const char* key) {
  const auto fact = graph.metadata.find(key);
  return fact == graph.metadata.end() ? std::string_view() : std::string_view(fact->second);
}

void InheritChoices(const Graph& graph, Graph& part) {
  for (auto fact = graph.metadata.lower_bound(std::string(kChoices));
       fact != graph.metadata.end() && fact->first.starts_with(kChoices); ++fact)
    part.metadata[fact->first] = fact->second;
}

}  // namespace evoq
