// Matrices whose numbers lie several to a word, as tools that quantize language models write them.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "llm/stored_tensor.h"

namespace evoq {

// Unsigned numbers of 2, 4 or 8 bits in little-endian words of 32: of a matrix [rows, columns]
// those that follow each other in a column (`down`) or a row share a word, in the order of
// `places`.
struct PackedNumbers {
  std::span<const std::byte> words;
  int64_t rows = 0, columns = 0;
  int bits = 4;
  bool down = false;
  bool bytes = false;  // of 8 bits: one byte after the other, without words; signed
  bool real = false;   // of 4 bits: float4e2m1
  // Without words: row r is number r / (rows / per byte) of the bytes of row r % (rows / per byte).
  bool in_runs = false;
  std::array<uint8_t, 16> places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  int per_word() const { return 32 / bits; }
  // Of the tensor of words. Both sizes are rounded up along the packed axis.
  std::vector<int64_t> sizes() const;
  int At(int64_t row, int64_t column) const;
};

// A matrix of integers in groups: the weight from input k to output n is (q[k, n] - zero[k / group,
// n]) * scale[k / group, n].
struct GroupedMatrix {
  int64_t inputs = 0, outputs = 0, group = 0;  // group: divides inputs
  PackedNumbers q;
  bool by_output = false;  // q is [outputs, inputs]
  // Of group g and output n.
  std::function<float(int64_t g, int64_t n)> scale;
  std::function<int(int64_t g, int64_t n)> zero;
  std::vector<int64_t> order;  // input k of the matrix is input order[k] of the model; empty: k

  int64_t groups() const { return inputs / group; }
  // uint2, uint4 or uint8 (of bytes int8; float4e2m1) [inputs, outputs] with the file's very
  // values; one group: a scale for each output, else blocks along the inputs. Errors: kInvalidInput
  // for a scale that is no finite number; kTooLarge.
  Result<Tensor> ToConstant() const;
};

// The inputs by group, of int32 [inputs] with the group of each; empty where they are in that
// order. Errors: kInvalidInput, kUnsupported for groups that are not of `group` inputs each.
Result<std::vector<int64_t>> OrderByGroup(const StoredTensor& stored, int64_t inputs,
                                          int64_t group);

// The weight that the matrix is, of these tensors, which stay mapped.
StoredTensor Joined(std::string format, GroupedMatrix matrix, std::vector<StoredTensor> parts);

// The settings' group_size (or q_group_size), 128 without it; -1 is all inputs. Errors:
// kUnsupported where it does not divide them.
Result<int64_t> GroupOf(const nlohmann::json& settings, int64_t inputs);

// The scales [groups, outputs] of `stored`, for GroupedMatrix::scale.
std::function<float(int64_t g, int64_t n)> ScalesByGroup(const StoredTensor& stored);

// Element i of plain float32, float16 or bfloat16.
float RealAt(const StoredTensor& stored, int64_t i);
// Errors: kInvalidInput, naming it `name`, for elements of another type.
Status CheckReal(const StoredTensor& stored, const std::string& name);

}  // namespace evoq
