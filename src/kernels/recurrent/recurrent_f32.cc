// lstm_f32, gru_f32 and rnn_f32: ONNX's recurrent operators in float32 (sequence.h).
#include "base/aligned.h"
#include "base/math.h"
#include "base/small_code.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/recurrent/sequence.h"

namespace evoq {
namespace {

// y = a b + bias for `rows` rows of a beside each other; b is constant and packed.
class Product {
 public:
  Product() = default;
  // `weights` [columns, depth] row-major.
  Product(const float* weights, int64_t rows, int64_t columns, int64_t depth,
          std::vector<float> bias, const BindOptions& options)
      : depth_(depth), columns_(columns), bias_(std::move(bias)) {
    const PanelShapeF32 shape{.columns = columns,
                              .taps = 1,
                              .depth = depth,
                              .column_stride = depth,
                              .tap_stride = 0,
                              .depth_stride = 1};
    panels_ = std::make_shared<AlignedBuffer>(static_cast<size_t>(shape.floats()) * sizeof(float));
    PackPanelsF32(shape, weights, 0, shape.panels(), reinterpret_cast<float*>(panels_->data()));
    GemmSizes sizes;
    sizes.rows = rows;
    sizes.columns = columns;
    sizes.taps = 1;
    sizes.depth = depth;
    sizes.panel_stride = shape.panel_stride();
    sizes.row_bytes = depth * static_cast<int64_t>(sizeof(float));
    plan_ = PlanGemm(sizes, GemmTypesF32(options.isa), Activation(), options);
  }

  int64_t columns() const { return columns_; }
  int64_t scratch_bytes() const { return 0; }
  KernelPlan Describe() const { return plan_.Describe(); }

  void Run(const float* a, float* y, std::byte*, ThreadPool& pool) const {
    const DenseRowsF32 rows = {a, depth_, columns_, kPanelF32};
    const GemmJob job = {&rows,
                         DenseRowsF32::Fill,
                         reinterpret_cast<const float*>(panels_->data()),
                         0,
                         columns_,
                         y,
                         bias_.empty() ? nullptr : bias_.data(),
                         nullptr};
    pool.ParallelFor(plan_.tasks(), plan_.grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) RunGemmTask(plan_, job, task);
    });
  }

 private:
  GemmPlan plan_;
  int64_t depth_ = 0, columns_ = 0;
  std::shared_ptr<AlignedBuffer> panels_;
  std::vector<float> bias_;  // empty: none
};

GateCurve CurveOf(const GateFn& fn, Isa isa) {
  GateCurve gate = {.fn = fn, .table = &UnaryTableFor(isa)};
  const CurveTable& curves = CurveTableFor(isa);
  if (fn.form == GateFn::kUnary && fn.unary.kind == UnaryKind::kSigmoid)
    gate.curve = curves.sigmoid;
  if (fn.form == GateFn::kUnary && fn.unary.kind == UnaryKind::kTanh) gate.curve = curves.tanh;
  return gate;
}

template <Cell kCell>
std::optional<Reason> RejectCell(const KernelCall& call) {
  if (auto why = RejectRecurrent(call, kCell)) return why;
  if (call.attrs.Int(kDataBlock, 0) > 0 && call.inputs[kRecurrentW].quantized() &&
      call.inputs[kRecurrentR].quantized())
    return Reject("attribute", "data_block: the data is rounded");
  return std::nullopt;
}

template <Cell kCell>
EVOQ_SMALL_CODE Result<BoundKernel> BindCell(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(const Tensor w, ToFloat32(*call.constant(kRecurrentW)));
  EVOQ_ASSIGN(const Tensor r, ToFloat32(*call.constant(kRecurrentR)));
  const auto make = [&](const RecurrentRows& rows, int64_t count,
                        std::vector<float> bias) -> Result<Product> {
    const Tensor& from = rows.from == kRecurrentW ? w : r;
    const int64_t depth = from.sizes()[2];
    return Product(from.data<float>() + (rows.d * from.sizes()[1] + rows.first) * depth, count,
                   rows.count, depth, std::move(bias), options);
  };
  EVOQ_ASSIGN(auto recurrent, MakeRecurrent<Product>(call, kCell, make, [&](const GateFn& fn) {
                return CurveOf(fn, options.isa);
              }));
  KernelPlan plan;
  if (!recurrent.all().empty()) plan = recurrent.all()[0].state.Describe();
  plan.widened = true;
  return BoundRecurrent(std::move(recurrent), std::move(plan));
}

}  // namespace

extern const KernelDef kLstmF32, kGruF32, kRnnF32;
const KernelDef kLstmF32 = {
    .name = "lstm_f32",
    .op = "LSTM",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kLstm>,
    .bind = BindCell<Cell::kLstm>,
};
const KernelDef kGruF32 = {
    .name = "gru_f32",
    .op = "GRU",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kGru>,
    .bind = BindCell<Cell::kGru>,
};
const KernelDef kRnnF32 = {
    .name = "rnn_f32",
    .op = "RNN",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kRnn>,
    .bind = BindCell<Cell::kRnn>,
};

}  // namespace evoq
