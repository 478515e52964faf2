// How far an output of one model is from the same output of another.
#pragma once

#include "tensor/tensor.h"

namespace evoq {

// Of one output on one sample: the ratio of sums of both, in dB, is the signal to noise.
struct Energy {
  double signal = 0, noise = 0;

  Energy& operator+=(const Energy& other) {
    signal += other.signal;
    noise += other.noise;
    return *this;
  }
};

// Floating-point outputs: sums of r^2 and of (r - m)^2, r the reference's elements and m the
// model's. Elements that are equal (infinities too, and NaN beside NaN) have no noise; where only
// one is not finite the noise is infinite. Others (integers, booleans, strings): each element is 1
// of signal, and 1 of noise where it differs. An output of another number of elements, or whose
// values cannot be compared element by element, is wrong as a whole: its noise is the reference's
// signal, and at least 1.
Energy EnergyOf(const Tensor& reference, const Tensor& model);

// The position of the largest element, the first of equal ones, as ONNX ArgMax has it; -1 where
// there is none: of no elements, of other types than numbers, and where an element is NaN.
int64_t ClassOf(const Tensor& output);
// `rows`, where the first axis of the output has that size; else 1.
int64_t RowsOf(const Tensor& output, int64_t rows);
// Of each of the `rows` that the first axis of the output has; where it has another size, one class
// of all of it.
std::vector<int64_t> ClassesOf(const Tensor& output, int64_t rows);

}  // namespace evoq
