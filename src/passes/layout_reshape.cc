// How a permutation of axes goes through a Reshape.
#include <algorithm>

#include "passes/layout.h"

namespace evoq {
namespace {

// Axes [x_begin, x_end) of the input are the same elements as axes [y_begin, y_end) of the output.
struct Group {
  int x_begin, x_end, y_begin, y_end;
};

bool IsOne(const Dim& dim) { return dim.value == 1; }

// Cuts both shapes into the smallest groups of equal products, from the left. A dimension of size 1
// without a counterpart is a group of its own.
std::optional<std::vector<Group>> GroupAxes(const Shape& x, const Shape& y) {
  std::vector<Group> groups;
  int i = 0, j = 0;
  while (i < x.rank() || j < y.rank()) {
    Group group{i, i, j, j};
    if (i < x.rank() && j < y.rank() && SameDim(x[i], y[j])) {
      group = {i, i + 1, j, j + 1};
    } else if (j < y.rank() && IsOne(y[j])) {
      group.y_end = j + 1;
    } else if (i < x.rank() && IsOne(x[i])) {
      group.x_end = i + 1;
    } else {
      int64_t product_x = 1, product_y = 1;
      do {
        const bool extend_x = product_x <= product_y;
        const Shape& shape = extend_x ? x : y;
        int& at = extend_x ? group.x_end : group.y_end;
        if (at >= shape.rank() || !shape[at].known() || shape[at].value == 0) return std::nullopt;
        (extend_x ? product_x : product_y) *= shape[at++].value;
        if (product_x > INT32_MAX || product_y > INT32_MAX) return std::nullopt;
      } while (product_x != product_y || group.y_end == group.y_begin);
    }
    i = group.x_end;
    j = group.y_end;
    groups.push_back(group);
  }
  return groups;
}

// Where the group stands in the permuted order: at its first axis that is not of size 1.
int PlaceOf(const Group& group, const Shape& x, const Permutation& where) {
  int place = -1;
  for (int axis = group.x_begin; axis < group.x_end; ++axis) {
    const int at = static_cast<int>(where[axis]);
    if (place < 0 || (!IsOne(x[axis]) && at < place)) place = at;
  }
  return place;
}

}  // namespace

namespace {

// The only dimension of the shape without a size, or -1; and the product of the others in `rest`, 0
// when it is too large.
int OnlyUnknown(const Shape& shape, int64_t& rest) {
  int unknown = -1;
  rest = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!shape[i].known() && unknown >= 0) return -1;
    if (!shape[i].known()) {
      unknown = i;
    } else if (__builtin_mul_overflow(rest, shape[i].value, &rest)) {
      return -1;
    }
  }
  return rest > 0 ? unknown : -1;
}

// Two shapes of as many elements with one unknown dimension each, and equal sizes otherwise: those
// two are equal.
void NameAlike(Shape& from, Shape& to) {
  int64_t rest_from, rest_to;
  const int a = OnlyUnknown(from, rest_from), b = OnlyUnknown(to, rest_to);
  if (a >= 0 && b >= 0 && rest_from == rest_to) from[a] = to[b] = Dim::Symbolic("same");
}

}  // namespace

std::optional<ReshapedPermutation> ReshapePermutation(Shape from, Shape to,
                                                      const Permutation& perm) {
  if (!from.ranked() || !to.ranked()) return std::nullopt;
  NameAlike(from, to);
  const auto groups = GroupAxes(from, to);
  if (!groups) return std::nullopt;
  const Permutation where = Inverse(perm);
  // (place, index): groups without input axes stand right before the group that follows them in the
  // output.
  std::vector<std::pair<double, int>> order;
  double next = static_cast<double>(from.rank());
  for (int g = static_cast<int>(groups->size()) - 1; g >= 0; --g) {
    const int place = PlaceOf((*groups)[g], from, where);
    next = place >= 0 ? place : next - 1e-3;
    order.emplace_back(next, g);
  }
  std::sort(order.begin(), order.end());
  ReshapedPermutation result;
  for (const auto& [place, g] : order) {
    const Group& group = (*groups)[g];
    for (int axis = group.x_begin; axis < group.x_end; ++axis) result.gathered.push_back(axis);
    for (int axis = group.y_begin; axis < group.y_end; ++axis) result.result.push_back(axis);
  }
  return result;
}

}  // namespace evoq
