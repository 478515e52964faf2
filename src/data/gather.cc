#include "data/gather.h"

#include <cstring>

namespace evoq {
namespace {

class Gathered : public Dataset {
 public:
  Gathered(std::unique_ptr<Dataset> rows, int64_t n, std::string warning)
      : rows_(std::move(rows)), n_(n), warning_(std::move(warning)) {}
  int64_t size() const override { return rows_->size() / n_; }
  int64_t rows() const override { return rows_->size(); }
  std::string warning() const override { return warning_; }

  Result<Sample> At(int64_t index) const override {
    Sample sample;
    for (int64_t row = 0; row < n_; ++row) {
      EVOQ_ASSIGN(const Sample one, rows_->At(index * n_ + row));
      if (row == 0) Begin(one, sample);
      EVOQ_TRY(Copy(one, row, sample));
      sample.rows.push_back({one.name, one.label});
    }
    sample.name = NameOf(sample.rows);
    return sample;
  }

 private:
  void Begin(const Sample& first, Sample& sample) const {
    for (const Tensor& input : first.inputs) {
      std::vector<int64_t> sizes = input.sizes();
      sizes[0] = n_;
      sample.inputs.push_back(Tensor::Allocate(TensorType(input.dtype(), Shape(sizes))));
    }
  }

  Status Copy(const Sample& one, int64_t row, Sample& sample) const {
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const Tensor& input = one.inputs[i];
      std::vector<int64_t> sizes = sample.inputs[i].sizes();
      sizes[0] = 1;
      if (input.sizes() != sizes)
        return InvalidInput("{}: a sample of {}, expected {} as those that it is gathered with",
                            one.name, input.type().ToString(), Shape(sizes).ToString());
      std::memcpy(sample.inputs[i].mutable_raw() + static_cast<size_t>(row) * input.bytes(),
                  input.raw(), input.bytes());
    }
    return {};
  }

  std::unique_ptr<Dataset> rows_;
  int64_t n_;
  std::string warning_;
};

}  // namespace

std::string NameOf(const std::vector<Sample::Row>& rows) {
  return fmt::format("{} to {}", rows.front().name, rows.back().name);
}

std::string LeftOver(const std::string& place, int64_t rows, int64_t n) {
  const int64_t left = rows % n;
  return left == 0
             ? std::string()
             : fmt::format("{}: the last {} of {} rows {} left out: the model takes {} at once",
                           place, left, rows, left == 1 ? "is" : "are", n);
}

Status CheckRows(const std::string& place, int64_t rows, int64_t n) {
  if (rows >= n || rows == 0) return {};
  return InvalidInput("{}: {} row{}, the model takes {} at once", place, rows, rows == 1 ? "" : "s",
                      n);
}

Result<std::unique_ptr<Dataset>> GatherRows(std::unique_ptr<Dataset> data, int64_t n,
                                            const std::string& place) {
  if (n < 2 || data->size() == 0) return data;
  EVOQ_ASSIGN(const Sample first, data->At(0));
  for (const Tensor& input : first.inputs) {
    if (input.shape().rank() == 0 || input.sizes()[0] != 1) return data;
  }
  EVOQ_TRY(CheckRows(place, data->size(), n));
  std::string warning = LeftOver(place, data->size(), n);
  return std::make_unique<Gathered>(std::move(data), n, std::move(warning));
}

}  // namespace evoq
