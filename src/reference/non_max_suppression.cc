// NonMaxSuppression(boxes, scores, max_output_boxes_per_class?, iou_threshold?, score_threshold?)
// -> rows of (batch, class, box): per batch and class the boxes by falling score, without those
// that overlap a chosen one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "base/budget_scope.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename T>
struct Box {
  T y0, x0, y1, x1, area;
};

template <typename T>
Box<T> BoxBetween(T y0, T x0, T y1, T x1) {
  return {y0, x0, y1, x1, (y1 - y0) * (x1 - x0)};
}

// [y, x, y, x] of any two opposite corners, or with `centered` [x center, y center, width, height].
template <typename T>
Box<T> BoxOf(const T* b, bool centered) {
  if (centered)
    return BoxBetween(b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2);
  return BoxBetween(std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]),
                    std::max(b[1], b[3]));
}

// Intersection over union; 0 where the union is empty.
template <typename T>
T Overlap(const Box<T>& a, const Box<T>& b) {
  const T height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0),
          width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  const T common = height * width, all = a.area + b.area - common;
  return all > 0 ? common / all : 0;
}

// The boxes of one class whose score passes, of which Next gives the best that is left: by falling
// score, of equal scores the first; NaN is the least. A heap, since few of many may be asked for.
template <typename T>
class Candidates {
 public:
  void Reset(const T* scores, int64_t boxes, std::optional<T> threshold) {
    entries_.clear();
    for (int64_t i = 0; i < boxes; ++i) {
      if (threshold && !(scores[i] > *threshold)) continue;
      entries_.push_back(
          {std::isnan(scores[i]) ? std::numeric_limits<T>::infinity() : -scores[i], i});
    }
    std::make_heap(entries_.begin(), entries_.end(), std::greater());
  }
  bool empty() const { return entries_.empty(); }
  int64_t Next() {
    std::pop_heap(entries_.begin(), entries_.end(), std::greater());
    const int64_t box = entries_.back().second;
    entries_.pop_back();
    return box;
  }

 private:
  std::vector<std::pair<T, int64_t>> entries_;  // -score, box
};

template <typename T>
EvalResult Suppressed(const EvalArgs& args) {
  for (size_t i : {3, 4}) {
    if (args.has(i) && args.inputs[i].elements() != 1)
      return InvalidInput("input {} is {}, expected one number", i,
                          args.inputs[i].type().ToString());
  }
  int64_t most = 0;
  if (args.has(2)) {
    EVOQ_ASSIGN(const std::vector<int64_t> values, ToInt64s(args.inputs[2]));
    if (values.size() != 1)
      return InvalidInput("input 2 is {}, expected one number", args.inputs[2].type().ToString());
    most = values[0];
  }
  const T max_overlap = args.has(3) ? args.inputs[3].data<T>()[0] : T{0};
  const std::vector<int64_t> sizes = args.inputs[1].sizes();
  const int64_t boxes = sizes[2];
  const bool centered = args.node.attrs.Int("center_point_box") != 0;
  EVOQ_TRY(SpendWork({sizes[0], sizes[1], boxes, std::clamp<int64_t>(most, 0, boxes) + 64},
                     "comparing boxes"));
  std::optional<T> threshold;
  if (args.has(4)) threshold = args.inputs[4].data<T>()[0];
  std::vector<int64_t> rows;
  Candidates<T> candidates;
  std::vector<Box<T>> chosen;
  for (int64_t row = 0; most > 0 && row < sizes[0] * sizes[1]; ++row) {
    const T* corners = args.inputs[0].data<T>() + row / sizes[1] * boxes * 4;
    candidates.Reset(args.inputs[1].data<T>() + row * boxes, boxes, threshold);
    chosen.clear();
    while (!candidates.empty() && static_cast<int64_t>(chosen.size()) < most) {
      const int64_t candidate = candidates.Next();
      const Box<T> box = BoxOf(corners + candidate * 4, centered);
      if (std::any_of(chosen.begin(), chosen.end(),
                      [&](const Box<T>& other) { return Overlap(box, other) > max_overlap; }))
        continue;
      chosen.push_back(box);
      rows.insert(rows.end(), {row / sizes[1], row % sizes[1], candidate});
    }
  }
  const int64_t count = static_cast<int64_t>(rows.size()) / 3;
  return One(Tensor::FromValues<int64_t>(Shape{count, 3}, rows));
}

EvalResult Evaluate(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Suppressed<decltype(tag)>(args); }, {2});
}

}  // namespace

namespace reference {

extern const Definition kNonMaxSuppression = {.name = "NonMaxSuppression", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
