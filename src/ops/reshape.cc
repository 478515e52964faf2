// Operators that give the same bytes another shape: Identity, Reshape, Flatten, Squeeze, Unsqueeze.
#include <algorithm>

#include "base/brief.h"
#include "base/math.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

std::vector<TensorType> OneType(const InferArgs& args, Shape shape) {
  return {TensorType(args.inputs[0].dtype, std::move(shape))};
}

// The product of known dims and the unknown ones.
struct Factors {
  int64_t known = 1;
  std::vector<Dim> unknown;
};

Result<Factors> FactorsOf(std::span<const Dim> dims) {
  Factors f;
  for (const Dim& d : dims) {
    if (!d.known()) {
      f.unknown.push_back(d);
      continue;
    }
    const auto product = CheckedMul(f.known, d.value);
    if (!product) return Fail(ErrorCode::kTooLarge, "shape has more than 2^63 elements");
    f.known = *product;
  }
  return f;
}

// Removes from both lists the unknown dims that are the same symbol.
void Cancel(std::vector<Dim>& a, std::vector<Dim>& b) {
  for (size_t i = 0; i < a.size();) {
    const auto same = a[i].symbol.empty() ? b.end() : std::find(b.begin(), b.end(), a[i]);
    if (same == b.end()) {
      ++i;
      continue;
    }
    b.erase(same);
    a.erase(a.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Resolves the one -1 at `hole` of `out` so that it has as many elements as `in`; checks the count
// when there is none. `copied` says which dims of `in` were taken over by a 0 in the same place: an
// unknown one cancels itself.
Status FillHole(const Shape& in, const std::vector<bool>& copied, int hole, Shape& out) {
  std::vector<Dim> from, to;
  for (int i = 0; i < in.rank(); ++i) {
    if (!copied[i] || in[i].known()) from.push_back(in[i]);
  }
  for (int i = 0; i < out.rank(); ++i) {
    const bool same = i < in.rank() && copied[i] && !in[i].known();
    if (i != hole && !same) to.push_back(out[i]);
  }
  EVOQ_ASSIGN(Factors a, FactorsOf(from));
  EVOQ_ASSIGN(Factors b, FactorsOf(to));
  Cancel(a.unknown, b.unknown);
  if (hole < 0) {
    if (a.unknown.empty() && b.unknown.empty() && a.known != b.known)
      return InvalidInput("cannot reshape {} to {}", in.ToString(), out.ToString());
    return {};
  }
  if (!b.unknown.empty()) return {};
  if (a.unknown.empty()) {
    if (b.known == 0 ? a.known != 0 : a.known % b.known != 0)
      return InvalidInput("cannot reshape {} to {}", in.ToString(), out.ToString());
    out[hole] = Dim(b.known == 0 ? 0 : a.known / b.known);
  } else if (a.unknown.size() == 1 && a.known == b.known) {
    out[hole] = a.unknown[0];
  }
  return {};
}

InferResult InferReshape(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t allowzero, IntAttr(args.node, "allowzero", 0));
  const Shape& in = args.inputs[0].shape;
  EVOQ_ASSIGN(const auto wanted, ConstantInts(args, 1));
  if (!wanted) {
    const Shape& target = args.inputs[1].shape;
    if (!target.ranked() || target.rank() != 1 || !target[0].known())
      return OneType(args, Shape::UnknownRank());
    EVOQ_TRY(CheckRankLimit(target[0].value));
    return OneType(args, Shape(std::vector<Dim>(target[0].value)));
  }
  EVOQ_TRY(CheckRankLimit(static_cast<int64_t>(wanted->size())));
  Shape out(std::vector<Dim>(wanted->size()));
  std::vector<bool> copied(
      in.ranked() ? std::max<size_t>(in.rank(), wanted->size()) : wanted->size(), false);
  int hole = -1;
  for (int i = 0; i < out.rank(); ++i) {
    const int64_t d = (*wanted)[i];
    if (d < -1)
      return InvalidInput("input 1 (shape) has the dimension {}, expected -1, 0 or a size", d);
    if (d == -1) {
      if (hole >= 0)
        return InvalidInput("input 1 (shape) {} has more than one -1",
                            BracketedBriefly<int64_t>(*wanted));
      hole = i;
    } else if (d == 0 && allowzero == 0) {
      if (!in.ranked()) continue;
      if (i >= in.rank())
        return InvalidInput("input 1 (shape) copies dimension {} of {}, which has rank {}", i,
                            in.ToString(), in.rank());
      out[i] = in[i];
      copied[i] = true;
    } else {
      out[i] = Dim(d);
    }
  }
  if (in.ranked()) EVOQ_TRY(FillHole(in, copied, hole, out));
  return OneType(args, std::move(out));
}

// The product as one dimension: a size, the only symbol times one, or unknown.
Result<Dim> ProductDim(std::span<const Dim> dims) {
  EVOQ_ASSIGN(const Factors f, FactorsOf(dims));
  if (f.unknown.empty()) return Dim(f.known);
  return f.unknown.size() == 1 && f.known == 1 ? f.unknown[0] : Dim();
}

InferResult InferFlatten(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 1));
  const Shape& in = args.inputs[0].shape;
  if (!in.ranked()) return OneType(args, Shape(std::vector<Dim>(2)));
  const int64_t axis = axis_attr < 0 ? axis_attr + in.rank() : axis_attr;
  if (axis < 0 || axis > in.rank())
    return InvalidInput("axis {} is outside [-{}, {}]", axis_attr, in.rank(), in.rank());
  const std::span<const Dim> dims(in.dims());
  EVOQ_ASSIGN(Dim rows, ProductDim(dims.first(axis)));
  EVOQ_ASSIGN(Dim columns, ProductDim(dims.subspan(axis)));
  return OneType(args, Shape(std::vector<Dim>{std::move(rows), std::move(columns)}));
}

InferResult InferSqueeze(const InferArgs& args) {
  const Shape& in = args.inputs[0].shape;
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 1));
  if (!in.ranked() || (!axes && args.has(1))) return OneType(args, Shape::UnknownRank());
  std::vector<bool> drop(in.rank(), false);
  if (axes) {
    EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, in.rank()));
    for (int axis : normal) {
      if (in[axis].known() && in[axis].value != 1)
        return InvalidInput("cannot squeeze axis {} of {}: its size is not 1", axis, in.ToString());
      drop[axis] = true;
    }
  } else {
    for (int i = 0; i < in.rank(); ++i) {
      if (!in[i].known()) return OneType(args, Shape::UnknownRank());
      drop[i] = in[i].value == 1;
    }
  }
  std::vector<Dim> dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (!drop[i]) dims.push_back(in[i]);
  }
  return OneType(args, Shape(std::move(dims)));
}

InferResult InferUnsqueeze(const InferArgs& args) {
  const Shape& in = args.inputs[0].shape;
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 1));
  if (!in.ranked()) return OneType(args, Shape::UnknownRank());
  if (!axes) {
    const Shape& list = args.inputs[1].shape;
    const bool one = list.ranked() && (list.rank() == 0 || (list.rank() == 1 && list[0] == Dim(1)));
    return OneType(args, one ? Shape(std::vector<Dim>(in.rank() + 1)) : Shape::UnknownRank());
  }
  EVOQ_TRY(CheckRankLimit(in.rank() + static_cast<int64_t>(axes->size())));
  const int rank = in.rank() + static_cast<int>(axes->size());
  EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, rank));
  std::vector<bool> added(rank, false);
  for (int axis : normal) added[axis] = true;
  std::vector<Dim> dims;
  int next = 0;
  for (int i = 0; i < rank; ++i) dims.push_back(added[i] ? Dim(1) : in[next++]);
  return OneType(args, Shape(std::move(dims)));
}

}  // namespace

extern const OpDef kIdentity = {.name = "Identity",
                                .quant = QuantTrait::kMove,
                                .view = true,
                                .elementwise = true,
                                .containers = true,
                                .strings = Strings::kOwn,
                                .infer = SameAsInput0};
extern const OpDef kReshape = {.name = "Reshape",
                               .min_inputs = 2,
                               .max_inputs = 2,
                               .quant = QuantTrait::kMove,
                               .view = true,
                               .infer = InferReshape};
extern const OpDef kFlatten = {
    .name = "Flatten", .quant = QuantTrait::kMove, .view = true, .infer = InferFlatten};
extern const OpDef kSqueeze = {.name = "Squeeze",
                               .max_inputs = 2,
                               .quant = QuantTrait::kMove,
                               .view = true,
                               .infer = InferSqueeze};
extern const OpDef kUnsqueeze = {.name = "Unsqueeze",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .quant = QuantTrait::kMove,
                                 .view = true,
                                 .infer = InferUnsqueeze};

}  // namespace evoq
