// How two operands are repeated along the axes of a result, by ONNX's broadcasting.
#pragma once

#include "ops/util.h"
#include "train/gradient.h"

namespace evoq {

// The lines of y along its last axis, and where the operands' lie.
struct Broadcast {
  std::vector<int64_t> sizes, a_strides, b_strides;  // of y's axes
  int64_t count = 1, length = 1;                     // lines, elements of each
  int64_t a_step = 0, b_step = 0;                    // along a line: 0 or 1

  // Calls body(y, a, b) with the offset of each line, in order.
  template <typename Body>
  void ForEachLine(const Body& body) const {
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, a = 0, b = 0;
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
        a += rest % sizes[d] * a_strides[d];
        b += rest % sizes[d] * b_strides[d];
      }
      body(i * length, a, b);
    }
  }
};

inline Broadcast BroadcastOf(const GradientArgs& args) {
  Broadcast out;
  out.sizes = args.y[0].shape.sizes();
  const std::vector<int64_t> a = args.x[0].shape.sizes(), b = args.x[1].shape.sizes();
  out.a_strides = BroadcastStrides(a, out.sizes);
  out.b_strides = BroadcastStrides(b, out.sizes);
  // Neighbouring axes that both operands pass alike are one.
  for (size_t d = out.sizes.size(); d-- > 1;) {
    const bool joined = out.a_strides[d - 1] == out.a_strides[d] * out.sizes[d] &&
                        out.b_strides[d - 1] == out.b_strides[d] * out.sizes[d];
    if (!joined) continue;
    out.sizes[d - 1] *= out.sizes[d];
    out.a_strides[d - 1] = out.a_strides[d];
    out.b_strides[d - 1] = out.b_strides[d];
    for (std::vector<int64_t>* list : {&out.sizes, &out.a_strides, &out.b_strides})
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(d));
  }
  if (!out.sizes.empty()) {
    out.length = out.sizes.back();
    out.a_step = out.a_strides.back();
    out.b_step = out.b_strides.back();
    for (std::vector<int64_t>* list : {&out.sizes, &out.a_strides, &out.b_strides})
      list->pop_back();
  }
  for (int64_t size : out.sizes) out.count *= size;
  return out;
}

}  // namespace evoq
