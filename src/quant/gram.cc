#include "quant/gram.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/math.h"
#include "ops/window.h"
#include "products/double_product.h"
#include "quant/observe.h"

namespace evoq {
namespace {

constexpr int64_t kRowsOfSample = 256;           // at most, evenly spread over a sample's
constexpr int64_t kMostRows = int64_t{1} << 23;  // whose sums are exact in float64
constexpr int kBits = 14;    // of the largest magnitude seen in the float model; one more fits
constexpr int kPasses = 32;  // at most, over all samples

// The rows of X of one sample, of one group at a time.
class Rows {
 public:
  static ::evoq::Result<Rows> Of(const Node& node, const LayerMatrices& m, const Tensor& weight,
                                 const Tensor& x) {
    Rows rows(m, x);
    const std::vector<int64_t> sizes = x.sizes();
    if (!m.by_column) {
      if (sizes.empty() || sizes.back() != m.depth)
        return Fail(ErrorCode::kInternal, "{}: its input is {}, expected {} columns", node.name,
                    x.type().ToString(), m.depth);
      rows.count_ = x.elements() / m.depth;
    } else {
      const std::vector<int64_t> w = weight.sizes();
      std::vector<Dim> kernel(weight.shape().dims().begin() + 2, weight.shape().dims().end());
      EVOQ_ASSIGN(const Window window, ResolveWindow(node, kernel, SpatialDims(x.shape()), false));
      for (size_t i = 2; i < sizes.size(); ++i) rows.pixels_ *= sizes[i];
      for (const Dim& d : window.output) rows.positions_ *= d.value;
      rows.channels_ = sizes[1];
      rows.count_ = sizes[0] * rows.positions_;
      rows.used_ = std::min(rows.count_, kRowsOfSample);
      rows.FindPlaces(window, {sizes.begin() + 2, sizes.end()});
    }
    rows.used_ = std::min(rows.count_, kRowsOfSample);
    return rows;
  }

  int64_t used() const { return used_; }

  // Which element of the layer's results row i gives for column n of group g.
  int64_t Result(int64_t g, int64_t i, int64_t n) const {
    const int64_t row = i * count_ / used_;
    if (!m_.by_column) return row * m_.columns + n;
    const int64_t channel = g * m_.columns + n;
    return (row / positions_ * m_.groups * m_.columns + channel) * positions_ + row % positions_;
  }

  // Row i of those used, of group g: `depth` elements.
  void Copy(int64_t g, int64_t i, double* to) const {
    const int64_t row = i * count_ / used_;
    const float* x = x_.data<float>();
    if (!m_.by_column) {
      std::copy_n(x + row * m_.depth, m_.depth, to);
      return;
    }
    const auto taps = static_cast<int64_t>(places_.size()) / used_, inputs = m_.depth / taps;
    const float* image = x + (row / positions_ * channels_ + g * inputs) * pixels_;
    const int64_t* places = &places_[i * taps];
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t t = 0; t < taps; ++t)
        to[c * taps + t] = places[t] >= 0 ? image[c * pixels_ + places[t]] : 0;
    }
  }

 private:
  Rows(const LayerMatrices& m, const Tensor& x) : m_(m), x_(x) {}

  // Where in a channel each tap of each row reads; -1: beside it.
  void FindPlaces(const Window& window, const std::vector<int64_t>& image) {
    int64_t taps = 1;
    for (int64_t s : window.kernel) taps *= s;
    for (int64_t i = 0; i < used_; ++i) {
      for (int64_t t = 0; t < taps; ++t) {
        int64_t at = 0, stride = 1, place = i * count_ / used_ % positions_, tap = t;
        bool inside = true;
        for (size_t d = image.size(); d-- > 0;) {
          const int64_t o = place % window.output[d].value, k = tap % window.kernel[d];
          place /= window.output[d].value;
          tap /= window.kernel[d];
          const int64_t p = o * window.strides[d] + k * window.dilations[d] - window.pad_begin[d];
          inside &= p >= 0 && p < image[d];
          at += p * stride;
          stride *= image[d];
        }
        places_.push_back(inside ? at : -1);
      }
    }
  }

  LayerMatrices m_;
  Tensor x_;
  std::vector<int64_t> places_;  // [used, taps]
  int64_t channels_ = 0, pixels_ = 1, positions_ = 1, count_ = 0, used_ = 0;
};

// A layer, and what is known of its inputs.
struct Layer {
  WeightRounding rounding;
  NodeId node;
  LayerMatrices matrices;
  std::string input;
  std::string residual;  // "": it adds none
  float most_residual = 0;
  std::vector<float> most;  // of |x| in the float model, [groups * depth]
  Gram gram;
  std::vector<std::vector<double>> cross, added;  // X^T X' and X^T (R' - R), X' of the float model

  int64_t gram_bytes() const { return 16 * matrices.groups * matrices.depth * matrices.depth; }
};

class LayerObserver {
 public:
  // `beside`: layers are seen beside the float model, with the weights before them as Replace has
  // made them.
  LayerObserver(MethodRun& run, bool beside)
      : run_(run), graph_(run.graph), workspace_(run.options.threads), beside_(beside) {}

  Status Run(const std::function<Status(const Layer& layer)>& use) {
    EVOQ_TRY(FindLayers());
    if (layers_.empty()) return {};
    EVOQ_ASSIGN(isa_, SelectIsa());
    EVOQ_TRY(Each(0, layers_.size(), /*twice=*/false,
                  [&](Layer& layer, const Inputs& in) { return FindMost(layer, in); }));
    for (size_t begin = 0; begin < layers_.size();) {
      const size_t end = EndOfPass(begin);
      for (size_t i = begin; i < end; ++i) Start(layers_[i]);
      EVOQ_TRY(Each(begin, end, beside_,
                    [&](Layer& layer, const Inputs& in) { return Add(layer, in); }));
      for (size_t i = begin; i < end; ++i) {
        Finish(layers_[i]);
        EVOQ_TRY(use(layers_[i]));
        layers_[i].gram = {};
      }
      begin = end;
    }
    return {};
  }

  // What comes after the layer sees it with the weight as it was rounded.
  Status Replace(const Layer& layer, const Tensor& rounded) {
    EVOQ_ASSIGN(Tensor stored, ToFloat32(rounded));
    graph_.SetConstant(graph_.node(layer.node).input(1), std::move(stored));
    return {};
  }

 private:
  Status FindLayers() {
    EVOQ_ASSIGN(std::vector<WeightRounding> weights,
                WeightsToRound(run_.scheme, graph_, run_.ranges, run_.options));
    std::map<std::string, size_t> by_node;
    for (size_t i = 0; i < weights.size(); ++i) by_node[weights[i].node] = i;
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const auto at = by_node.find(node.name);
      if (at == by_node.end() || weights[at->second].input != 1) continue;
      WeightRounding& r = weights[at->second];
      const auto matrices = MatricesOf(node, r.values);
      if (!matrices) continue;
      Layer layer{.rounding = std::move(r),
                  .node = id,
                  .matrices = *matrices,
                  .input = graph_.value(node.input(0)).name};
      if (node.input(3).valid() && !graph_.value(node.input(3)).is_constant())
        layer.residual = graph_.value(node.input(3)).name;
      layer.most.assign(static_cast<size_t>(matrices->groups * matrices->depth), 0);
      weight_bytes_ += 4 * layer.rounding.values.elements();
      layers_.push_back(std::move(layer));
    }
    return {};
  }

  // Layers of one input are observed together, and more where there are too many for a pass each.
  size_t EndOfPass(size_t begin) const {
    std::set<std::string> inputs;
    const size_t least = begin + CeilDiv(layers_.size(), static_cast<size_t>(kPasses));
    int64_t bytes = 0;
    size_t end = begin;
    for (; end < layers_.size(); ++end) {
      bytes += layers_[end].gram_bytes();
      const bool known = inputs.count(layers_[end].input) > 0;
      const bool enough = beside_ && !known && end >= least;
      if (end > begin && (bytes > weight_bytes_ || enough)) break;
      inputs.insert(layers_[end].input);
    }
    return end;
  }

  // Of one sample: a layer's input and residual with the weights as they were rounded, and in the
  // float model.
  struct Inputs {
    Tensor x, residual, float_x, float_residual;
  };

  template <typename Use>
  Status Each(size_t begin, size_t end, bool twice, const Use& use) {
    std::vector<std::string> values;
    const auto place = [&](const std::string& name) {
      return static_cast<size_t>(std::ranges::find(values, name) - values.begin());
    };
    for (size_t i = begin; i < end; ++i) {
      for (const std::string& name : {layers_[i].input, layers_[i].residual}) {
        if (!name.empty() && place(name) == values.size()) values.push_back(name);
      }
    }
    const Graph* const graphs[] = {&graph_, &run_.graph};
    return ObserveValues(std::span(graphs).first(twice ? 2 : 1), values, run_.data,
                         [&](const ValuesOfGraphs& all) -> Status {
                           for (size_t i = begin; i < end; ++i) {
                             const Layer& layer = layers_[i];
                             Inputs in{.x = all[0][place(layer.input)],
                                       .float_x = all.back()[place(layer.input)]};
                             if (!layer.residual.empty()) {
                               in.residual = all[0][place(layer.residual)];
                               in.float_residual = all.back()[place(layer.residual)];
                             }
                             EVOQ_TRY(use(layers_[i], in));
                           }
                           return {};
                         });
  }

  Result<Rows> RowsOf(const Layer& layer, const Tensor& x) const {
    if (x.dtype() != DType::kFloat32)
      return Fail(ErrorCode::kInternal, "{}: its input is {}", layer.rounding.node,
                  x.type().ToString());
    return Rows::Of(graph_.node(layer.node), layer.matrices, layer.rounding.values, x);
  }

  Status FindMost(Layer& layer, const Inputs& in) {
    EVOQ_ASSIGN(const Rows rows, RowsOf(layer, in.x));
    if (in.residual.defined()) {
      for (float r : in.residual.values<float>())
        layer.most_residual = std::max(layer.most_residual, std::fabs(r));
    }
    const int64_t depth = layer.matrices.depth;
    std::vector<double> row(static_cast<size_t>(depth));
    for (int64_t g = 0; g < layer.matrices.groups; ++g) {
      float* most = &layer.most[g * depth];
      double poison = 0;
      for (int64_t i = 0; i < rows.used(); ++i) {
        rows.Copy(g, i, row.data());
        for (int64_t k = 0; k < depth; ++k) {
          most[k] = std::max(most[k], static_cast<float>(std::fabs(row[k])));
          poison += row[k] * 0;
        }
      }
      if (!(poison == 0))
        return InvalidInput("the input {} of {} holds a NaN or an infinity", layer.input,
                            layer.rounding.node);
    }
    return {};
  }

  void Start(Layer& layer) {
    const LayerMatrices& m = layer.matrices;
    const auto groups = static_cast<size_t>(m.groups);
    layer.gram = {.depth = m.depth};
    layer.gram.groups.assign(groups, std::vector<double>(static_cast<size_t>(m.depth * m.depth)));
    if (!beside_) return;
    layer.cross = layer.gram.groups;
    layer.added.assign(layer.residual.empty() ? 0 : groups,
                       std::vector<double>(static_cast<size_t>(m.depth * m.columns)));
  }

  // The power of two that makes 2^kBits of the largest magnitude or a little less of it.
  static double Unit(float most) {
    return most > 0 ? std::ldexp(1.0, std::ilogb(most) + 1 - kBits) : 1;
  }
  static double Rounded(double v, double unit) {
    constexpr double kMost = 1 << (kBits + 1);
    constexpr double kWhole = 0x1.8p52;  // numbers of its size have no bits below 1
    return std::clamp(v / unit, -kMost, kMost) + kWhole - kWhole;
  }

  // The rows of group g in units.
  static std::vector<double> Integers(const Layer& layer, const Rows& rows, int64_t g) {
    const int64_t depth = layer.matrices.depth;
    std::vector<double> part(static_cast<size_t>(rows.used() * depth)), units;
    for (int64_t k = 0; k < depth; ++k) units.push_back(Unit(layer.most[g * depth + k]));
    for (int64_t i = 0; i < rows.used(); ++i) {
      double* row = &part[i * depth];
      rows.Copy(g, i, row);
      for (int64_t k = 0; k < depth; ++k) row[k] = Rounded(row[k], units[k]);
    }
    return part;
  }

  // to [depth, n] += x^T y over `count` rows. The sums are exact, whichever way they are made.
  void AddProduct(const std::vector<double>& x, const std::vector<double>& y, int64_t count,
                  int64_t depth, int64_t n, bool by_groups, std::vector<double>& to) {
    if (!by_groups) {
      return Multiply(ProductF64{.m = depth,
                                 .n = n,
                                 .k = count,
                                 .alpha = 1,
                                 .a = {x.data(), 1, depth},
                                 .b = {y.data(), n, 1},
                                 .beta = 1,
                                 .c = to.data(),
                                 .c_stride = n},
                      isa_, workspace_);
    }
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < depth; ++i) {
        const double factor = x[r * depth + i];
        for (int64_t j = 0; j < n; ++j) to[i * n + j] += factor * y[r * n + j];
      }
    }
  }

  Status Add(Layer& layer, const Inputs& in) {
    EVOQ_ASSIGN(const Rows rows, RowsOf(layer, in.x));
    EVOQ_ASSIGN(const Rows float_rows, RowsOf(layer, in.float_x));
    layer.gram.rows += rows.used();
    if (layer.gram.rows > kMostRows)
      return InvalidInput("{}: more than {} rows of inputs", layer.rounding.node, kMostRows);
    const int64_t groups = layer.matrices.groups;
    if (groups == 1) {
      AddGroup(layer, in, rows, float_rows, 0, /*by_groups=*/false);
    } else {
      workspace_.pool.ParallelFor(groups, 4, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) AddGroup(layer, in, rows, float_rows, g, true);
      });
    }
    return {};
  }

  void AddGroup(Layer& layer, const Inputs& in, const Rows& rows, const Rows& float_rows, int64_t g,
                bool by_groups) {
    const int64_t depth = layer.matrices.depth, columns = layer.matrices.columns;
    const std::vector<double> x = Integers(layer, rows, g);
    AddProduct(x, x, rows.used(), depth, depth, by_groups, layer.gram.groups[g]);
    if (!beside_) return;
    const std::vector<double> y = Integers(layer, float_rows, g);
    AddProduct(x, y, rows.used(), depth, depth, by_groups, layer.cross[g]);
    if (layer.added.empty()) return;
    const double unit = Unit(layer.most_residual);
    std::vector<double> r(static_cast<size_t>(rows.used() * columns));
    for (int64_t i = 0; i < rows.used(); ++i) {
      for (int64_t n = 0; n < columns; ++n) {
        const int64_t at = rows.Result(g, i, n);
        r[i * columns + n] = Rounded(static_cast<double>(in.float_residual.data<float>()[at]) -
                                         in.residual.data<float>()[at],
                                     unit);
      }
    }
    AddProduct(x, r, rows.used(), depth, columns, by_groups, layer.added[g]);
  }

  // Units are taken off, and what is missing is (X^T X' - X^T X) W + X^T R.
  void Finish(Layer& layer) {
    const int64_t depth = layer.matrices.depth, columns = layer.matrices.columns;
    const WeightGrid grid(layer.rounding, layer.matrices);
    for (int64_t g = 0; g < layer.matrices.groups; ++g) {
      std::vector<double>& gram = layer.gram.groups[g];
      std::vector<double> units;
      for (int64_t k = 0; k < depth; ++k) units.push_back(Unit(layer.most[g * depth + k]));
      for (int64_t i = 0; i < depth * depth; ++i) gram[i] *= units[i / depth] * units[i % depth];
      if (!beside_) continue;
      std::vector<double>& cross = layer.cross[g];
      for (int64_t i = 0; i < depth * depth; ++i)
        cross[i] = cross[i] * units[i / depth] * units[i % depth] - gram[i];
      const std::vector<float> matrix = grid.Matrix(g);
      const std::vector<double> w(matrix.begin(), matrix.end());
      std::vector<double> missing(w.size());
      if (!layer.added.empty()) {
        for (int64_t i = 0; i < depth * columns; ++i)
          missing[i] = layer.added[g][i] * units[i / columns] * Unit(layer.most_residual);
      }
      Multiply(ProductF64{.m = depth,
                          .n = columns,
                          .k = depth,
                          .alpha = 1,
                          .a = {cross.data(), depth, 1},
                          .b = {w.data(), columns, 1},
                          .beta = 1,
                          .c = missing.data(),
                          .c_stride = columns},
               isa_, workspace_);
      layer.gram.missing.push_back(std::move(missing));
    }
    layer.cross.clear();
    layer.added.clear();
  }

  MethodRun& run_;
  Graph graph_;  // a copy whose weights become what they are rounded to
  Workspace workspace_;
  const bool beside_;
  Isa isa_;
  std::vector<Layer> layers_;
  int64_t weight_bytes_ = 0;
};

}  // namespace

Status RoundLayers(MethodRun& run, const RoundLayerFn& round) {
  LayerObserver observer(run, /*beside=*/true);
  return observer.Run([&](const Layer& layer) -> Status {
    EVOQ_ASSIGN(Tensor q, round(layer.rounding, layer.matrices, layer.gram));
    EVOQ_TRY(observer.Replace(layer, q));
    run.Choose(layer.rounding.weight, std::move(q), /*fitted=*/true);
    return {};
  });
}

Status ObserveLayers(MethodRun& run, const UseLayerFn& use) {
  return LayerObserver(run, /*beside=*/false).Run([&](const Layer& layer) {
    return use(layer.rounding, layer.matrices, layer.gram);
  });
}

}  // namespace evoq
