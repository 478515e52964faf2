// Shapes with symbolic dimensions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

// A size, or not known yet (-1) with the model's name for it ("N", "height"; empty when it has
// none).
struct Dim {
  int64_t value = -1;
  std::string symbol;

  Dim() = default;
  Dim(int64_t v) : value(v) {}  // NOLINT: a number is a dimension
  static Dim Symbolic(std::string name) {
    Dim d;
    d.symbol = std::move(name);
    return d;
  }
  bool known() const { return value >= 0; }
  bool operator==(const Dim&) const = default;
};

// Rank and dimensions; the rank may be unknown too.
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  explicit Shape(const std::vector<int64_t>& dims) : dims_(dims.begin(), dims.end()) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  static Shape UnknownRank() {
    Shape s;
    s.ranked_ = false;
    return s;
  }

  bool ranked() const { return ranked_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  const std::vector<Dim>& dims() const { return dims_; }
  std::vector<Dim>& mutable_dims() { return dims_; }
  const Dim& operator[](int i) const { return dims_[i]; }
  Dim& operator[](int i) { return dims_[i]; }

  // Every dimension known.
  bool is_static() const;
  // The sizes of a static shape.
  std::vector<int64_t> sizes() const;
  // Number of elements: nothing when not static or when the product overflows int64.
  std::optional<int64_t> elements() const;

  // "[N, 3, 224, 224]", "[]" for a scalar, "[?, 3]" for an unnamed unknown, "[...]" for an unknown
  // rank.
  std::string ToString() const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
  bool ranked_ = true;
};

// -1 -> rank-1 and so on. Errors: kInvalidInput when outside [-rank, rank).
Result<int> NormalizeAxis(int64_t axis, int rank);

// The row-major strides, in elements, of these sizes.
std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& sizes);

}  // namespace evoq
