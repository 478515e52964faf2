// Encodings of a file's tensors <-> types of values of the optimized graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "encodings/encoding.h"
#include "encodings/lineage.h"
#include "quant/quant.h"

namespace evoq {

struct ResolvedEncodings {
  GivenTypes given;                             // by value of the optimized graph
  std::map<std::string, std::string> tensors;   // value -> the entry that gave it
  std::map<std::string, std::string> not_used;  // entry -> why nothing has its parameters
  std::vector<std::string> warnings;
};

// What the entries say of the optimized graph's values. An entry whose tensor the model does not
// have is not used, and the sentence names the nearest ones; nor is one that no type of evoq holds
// exactly. Errors: kInvalidInput, naming the entry, where it does not fit its tensor's shape.
Result<ResolvedEncodings> ResolveEncodings(std::span<const Encoding> encodings,
                                           const Graph& original, const Graph& optimized);

// Encodings of what quantization used (QuantizeReport::used, with its activation_bits), by tensors
// of the file, sorted.
struct UsedEncodings {
  std::vector<Encoding> encodings;
  std::map<std::string, std::string> left_out;  // values without one, and why
};
UsedEncodings EncodingsOfUsed(const std::map<std::string, TensorType>& used,
                              const std::map<std::string, int>& activation_bits,
                              const Graph& original, const Lineage& lineage);

}  // namespace evoq
