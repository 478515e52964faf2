// A TensorFlow Lite file whose tables can be read: verified, with every index in range.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tflite/schema_generated.h"

namespace evoq::tflite {

// Whether the bytes have the mark of TensorFlow Lite's files, "TFL3".
bool HasMark(std::span<const std::byte> bytes);

// Views of bytes that `owner` keeps alive.
struct File {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  const fb::Model* model = nullptr;
  unsigned subgraph = 0;
  // What runs: the first subgraph, and those that operators of these run. Others are run by
  // operators that evoq lacks, or are further signatures of the file.
  std::vector<unsigned> reached = {0};

  const fb::SubGraph& graph() const { return *model->subgraphs()->Get(subgraph); }
  // The file with another subgraph as what `graph` gives.
  File At(unsigned other) const;
  const fb::OperatorCode& CodeOf(const fb::Operator& op) const {
    return *model->operator_codes()->Get(op.code_index());
  }
  // The bytes of a tensor; empty for one that is computed.
  std::span<const std::byte> DataOf(const fb::Tensor& tensor) const;
};

// The number of a builtin operator, of an old file and of a new one; kCustom for one with a name of
// its own.
inline constexpr int kCustom = 32;
int NumberOf(const fb::OperatorCode& code);

// Reads and checks: the flatbuffer, the version, that there is a graph, that tensors name buffers
// that lie in the file, that operators name codes, tensors and subgraphs, that each tensor is
// written at most once and before it is read. Errors: kInvalidInput, kUnsupported with the table
// and its number.
Result<File> ReadFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

// "operator 3 (CONV_2D)", "operator 3 (CONV_2D) of subgraph 2": for messages.
std::string LabelOf(const File& file, size_t op);
// A name from the file, cut to 200 bytes; "" where it has none.
std::string TextOf(const flatbuffers::String* text);

}  // namespace evoq::tflite
