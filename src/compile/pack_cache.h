// Packed forms of constants that several programs of one model read: packed once, stored once.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "graph/graph.h"

namespace evoq {

// Any thread may call any function at any time.
class PackCache {
 public:
  // Packed forms of the constants of this graph and its subgraphs are kept from now on, as are they
  // themselves.
  void Keep(const Graph& graph);

  // What `make` gives for `constant` as input `input` of a node with these attributes, for kernel
  // `kernel`: made once, where the constant is kept,
  // but for callers that ask at the same time, who get the same. Errors: those of `make`.
  Result<Tensor> Get(const Tensor& constant, const std::string& kernel, const Attrs& attrs,
                     size_t input, const std::function<Result<Tensor>()>& make);

 private:
  void KeepAll(const Graph& graph);
  using Key = std::tuple<const std::byte*, std::string, std::string, size_t>;
  std::mutex mutex_;                         // of what follows
  std::map<const std::byte*, Tensor> kept_;  // their memory is no other constant's while it is here
  std::map<Key, Tensor> forms_;
};

}  // namespace evoq
