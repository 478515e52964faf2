#include "tflite/file.h"

#include <algorithm>
#include <vector>

#include "base/budget_scope.h"
#include "tflite/op_row.h"

namespace evoq::tflite {
namespace {

constexpr uint32_t kVersion = 3;
constexpr int kMaxRank = 8;
constexpr size_t kMaxText = 200;
// Tables nest at most so deep and are so many in a file of any size.
constexpr flatbuffers::uoffset_t kMaxDepth = 16, kMaxTables = 1 << 20;

template <typename T>
size_t SizeOf(const T* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Tensors, buffers and operators of one file, in the order in which the graph is read.
class Checker {
 public:
  explicit Checker(const File& file) : file_(file) {}

  Status Run() {
    const fb::Model& model = *file_.model;
    if (model.version() != kVersion)
      return Unsupported("version {} of the format, evoq reads {}", model.version(), kVersion);
    if (SizeOf(model.subgraphs()) == 0) return InvalidInput("the file holds no graph");
    const fb::SubGraph& graph = file_.graph();
    if (SizeOf(graph.outputs()) == 0) return InvalidInput("the graph has no outputs");
    known_.resize(SizeOf(graph.tensors()));
    for (size_t i = 0; i < known_.size(); ++i)
      EVOQ_TRY(WithContext(CheckTensor(i), fmt::format("tensor {}", i)));
    EVOQ_TRY(CheckInputs());
    for (size_t i = 0; i < SizeOf(graph.operators()); ++i) {
      EVOQ_TRY(WithContext(CheckCode(i), fmt::format("operator {}", i)));
      EVOQ_TRY(WithContext(CheckOperator(i), LabelOf(file_, i)));
    }
    for (int32_t t : *graph.outputs()) EVOQ_TRY(WithContext(CheckKnown(t), "the graph's outputs"));
    return {};
  }

 private:
  Status CheckTensor(size_t i) {
    const fb::Tensor& tensor = *file_.graph().tensors()->Get(static_cast<unsigned>(i));
    const size_t rank = SizeOf(tensor.shape()), named = SizeOf(tensor.shape_signature());
    if (rank > kMaxRank) return Unsupported("rank {}, expected at most {}", rank, kMaxRank);
    if (named != 0 && named != rank)
      return InvalidInput("a shape signature of {} sizes, the shape has {}", named, rank);
    for (size_t d = 0; d < rank; ++d) {
      const int32_t size = tensor.shape()->Get(static_cast<unsigned>(d));
      if (size < -1) return InvalidInput("size {} on axis {}", size, d);
    }
    if (tensor.buffer() >= SizeOf(file_.model->buffers()) && tensor.buffer() != 0)
      return InvalidInput("buffer {} of {}", tensor.buffer(), SizeOf(file_.model->buffers()));
    EVOQ_TRY(CheckBuffer(tensor.buffer()));
    known_[i] = !file_.DataOf(tensor).empty() || tensor.is_variable() || IsEmpty(tensor);
    return {};
  }

  // A tensor without elements is a constant that needs no bytes, unless an operator writes it.
  static bool IsEmpty(const fb::Tensor& tensor) {
    const auto* shape = tensor.shape();
    return shape != nullptr && std::find(shape->begin(), shape->end(), 0) != shape->end();
  }

  Status CheckBuffer(uint32_t index) {
    if (SizeOf(file_.model->buffers()) == 0) return {};
    const fb::Buffer& buffer = *file_.model->buffers()->Get(index);
    if (buffer.offset() <= 1) return {};
    if (buffer.offset() > file_.bytes.size() ||
        buffer.size() > file_.bytes.size() - buffer.offset())
      return InvalidInput("buffer {} lies at {} with {} bytes, the file has {}", index,
                          buffer.offset(), buffer.size(), file_.bytes.size());
    return {};
  }

  Status CheckInputs() {
    for (unsigned i = 0; i < SizeOf(file_.graph().inputs()); ++i) {
      const int32_t t = file_.graph().inputs()->Get(i);
      if (t < 0 || static_cast<size_t>(t) >= known_.size())
        return InvalidInput("input {} of the graph is tensor {} of {}", i, t, known_.size());
      known_[static_cast<size_t>(t)] = true;
    }
    return {};
  }

  Status CheckCode(size_t i) {
    const fb::Operator& op = *file_.graph().operators()->Get(static_cast<unsigned>(i));
    if (op.code_index() >= SizeOf(file_.model->operator_codes()))
      return InvalidInput("code {} of {}", op.code_index(), SizeOf(file_.model->operator_codes()));
    return {};
  }

  Status CheckOperator(size_t i) {
    const fb::Operator& op = *file_.graph().operators()->Get(static_cast<unsigned>(i));
    EVOQ_TRY(SpendWork(static_cast<int64_t>(SizeOf(op.inputs()) + SizeOf(op.outputs())) + 1,
                       "operators"));
    for (unsigned k = 0; k < SizeOf(op.inputs()); ++k) {
      const int32_t t = op.inputs()->Get(k);
      if (t != -1) EVOQ_TRY(WithContext(CheckKnown(t), fmt::format("input {}", k)));
    }
    for (unsigned k = 0; k < SizeOf(op.outputs()); ++k)
      EVOQ_TRY(WithContext(CheckWritten(op.outputs()->Get(k)), fmt::format("output {}", k)));
    return {};
  }

  Status CheckKnown(int32_t t) const {
    if (t < 0 || static_cast<size_t>(t) >= known_.size())
      return InvalidInput("tensor {} of {}", t, known_.size());
    if (!known_[static_cast<size_t>(t)])
      return InvalidInput("tensor {} is read before an operator writes it", t);
    return {};
  }

  Status CheckWritten(int32_t t) {
    if (t < 0 || static_cast<size_t>(t) >= known_.size())
      return InvalidInput("tensor {} of {}", t, known_.size());
    const fb::Tensor& tensor = *file_.graph().tensors()->Get(static_cast<unsigned>(t));
    if (known_[static_cast<size_t>(t)] && !(IsEmpty(tensor) && file_.DataOf(tensor).empty()))
      return InvalidInput("tensor {} is written twice, or is an input or a constant", t);
    known_[static_cast<size_t>(t)] = true;
    return {};
  }

  const File& file_;
  std::vector<bool> known_;  // by tensor: a value that operators may read
};

}  // namespace

bool HasMark(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && fb::ModelBufferHasIdentifier(bytes.data());
}

std::span<const std::byte> File::DataOf(const fb::Tensor& tensor) const {
  if (tensor.buffer() >= SizeOf(model->buffers())) return {};
  const fb::Buffer& buffer = *model->buffers()->Get(tensor.buffer());
  if (buffer.offset() > 1) return bytes.subspan(buffer.offset(), buffer.size());
  if (buffer.data() == nullptr) return {};
  return std::as_bytes(std::span(buffer.data()->data(), buffer.data()->size()));
}

int NumberOf(const fb::OperatorCode& code) {
  return std::max(static_cast<int>(code.short_code()), code.code());
}

std::string TextOf(const flatbuffers::String* text) {
  return text == nullptr ? "" : text->str().substr(0, kMaxText);
}

std::string LabelOf(const File& file, size_t op) {
  const fb::Operator& table = *file.graph().operators()->Get(static_cast<unsigned>(op));
  return fmt::format("operator {} ({})", op, OperatorName(file.CodeOf(table)));
}

Result<File> ReadFile(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (!HasMark(bytes)) return InvalidInput("no TensorFlow Lite file: the mark TFL3 is missing");
  // Tables lie in the first 2 GB; buffers may lie behind them.
  const size_t tables = std::min<size_t>(bytes.size(), FLATBUFFERS_MAX_BUFFER_SIZE - 1);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), tables, kMaxDepth,
                                 kMaxTables);
  if (!fb::VerifyModelBuffer(verifier))
    return InvalidInput(
        "the tables are damaged or cut short: an offset or a size points out of the file");
  File file{bytes, std::move(owner), fb::GetModel(bytes.data())};
  EVOQ_TRY(Checker(file).Run());
  return file;
}

}  // namespace evoq::tflite
