// lstm_int8, gru_int8 and rnn_int8: ONNX's recurrent operators (sequence.h) with the attribute
// data_block and quantized W and R. Both products are those of blocks/block_data.h: rows of the
// input, and at each step those of the state (of GRU without linear_before_reset also r * h), are
// rounded to int8 and multiplied with integers. Gates and states are float32, by the definitions of
// kernels/math, so that results are the same on every machine, for every number of threads and
// beside any other samples.
#include "base/small_code.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/bound_product.h"
#include "kernels/recurrent/sequence.h"
#include "kernels/recurrent/weights.h"

namespace evoq {
namespace {

// y = rounded(a) b + bias.
class Product {
 public:
  Product() = default;
  Product(BoundProduct product, std::vector<float> bias)
      : product_(std::move(product)), bias_(std::move(bias)) {}

  int64_t columns() const { return product_.columns(); }
  int64_t scratch_bytes() const { return product_.scratch_bytes(); }
  KernelPlan Describe() const { return product_.Describe(); }

  void Run(const float* a, float* y, std::byte* scratch, ThreadPool& pool) const {
    product_.Run(a, bias_.empty() ? nullptr : bias_.data(), y, scratch, pool);
  }

 private:
  BoundProduct product_;
  std::vector<float> bias_;  // empty: none
};

template <Cell kCell>
std::optional<Reason> RejectCell(const KernelCall& call) {
  const int64_t data_block = call.attrs.Int(kDataBlock, 0);
  if (data_block < 1) return Reject("attribute", "no data_block: the data is not rounded");
  if (auto why = RejectRecurrent(call, kCell)) return why;
  for (size_t i : {kRecurrentW, kRecurrentR}) {
    const auto matrix = DirectionType(call.inputs[i], 0);
    if (!matrix || !call.constant(i)->layout().empty())
      return Reject("types",
                    "input {} is {}, expected quantized weights with scales by rows or by blocks "
                    "along the last axis",
                    i, call.inputs[i].ToString());
    if (auto why = RejectBlocks(*matrix, data_block)) return why;
  }
  return std::nullopt;
}

template <Cell kCell>
EVOQ_SMALL_CODE Result<BoundKernel> BindCell(const KernelCall& call, const BindOptions& options) {
  const int64_t data_block = call.attrs.Int(kDataBlock, 0);
  const auto make = [&](const RecurrentRows& rows, int64_t count,
                        std::vector<float> bias) -> Result<Product> {
    EVOQ_ASSIGN(const Tensor matrix,
                DirectionMatrix(*call.constant(rows.from), rows.d, rows.first, rows.count));
    EVOQ_ASSIGN(BoundProduct product, BoundProduct::Bind(matrix, data_block, count, options));
    return Product(std::move(product), std::move(bias));
  };
  const UnaryTable& table = UnaryTableFor(options.isa);
  EVOQ_ASSIGN(auto recurrent, MakeRecurrent<Product>(call, kCell, make, [&](const GateFn& fn) {
                return GateCurve{.fn = fn, .table = &table};
              }));
  KernelPlan plan;
  if (!recurrent.all().empty()) plan = recurrent.all()[0].state.Describe();
  return BoundRecurrent(std::move(recurrent), std::move(plan));
}

}  // namespace

extern const KernelDef kLstmInt8, kGruInt8, kRnnInt8;
const KernelDef kLstmInt8 = {
    .name = "lstm_int8",
    .op = "LSTM",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectCell<Cell::kLstm>,
    .bind = BindCell<Cell::kLstm>,
};
const KernelDef kGruInt8 = {
    .name = "gru_int8",
    .op = "GRU",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectCell<Cell::kGru>,
    .bind = BindCell<Cell::kGru>,
};
const KernelDef kRnnInt8 = {
    .name = "rnn_int8",
    .op = "RNN",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectCell<Cell::kRnn>,
    .bind = BindCell<Cell::kRnn>,
};

}  // namespace evoq
