// How far the elements of one value are from those of another, summed over samples.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

class ValueError {
 public:
  // `a` are right, `b` are as many. Elements that are equal, infinities and NaN beside NaN
  // included, add no error; where only one is not finite, noise and largest error are infinite.
  void Add(std::span<const float> a, std::span<const float> b);
  // The same of integers and booleans, each of which is right or wrong, as certify/energy.h has it:
  // an element is 1 in A, and in B 1 where it is the same, else 0.
  void AddElements(std::span<const float> a, std::span<const float> b);
  ValueError& operator+=(const ValueError& other);

  int64_t elements() const { return elements_; }
  double signal() const { return aa_; }    // sum a^2, of finite elements
  double noise() const { return noise_; }  // sum (b - a)^2
  // 10 log10(signal / noise), in dB. Infinite without noise; with noise at least -1000.
  double sqnr_db() const;
  // sum a b / sqrt(sum a^2 sum b^2) over elements that are finite in both: 1 where both are 0
  // everywhere, 0 where only one is.
  double cosine() const;
  double max_abs() const { return max_abs_; }  // the largest |b - a|
  // mean (b - a): infinite, or NaN, where an error is. 0 without elements.
  double mean_error() const;

 private:
  int64_t elements_ = 0;
  double aa_ = 0, bb_ = 0, ab_ = 0, finite_aa_ = 0;
  double noise_ = 0, sum_ = 0, max_abs_ = 0;
};

}  // namespace evoq
