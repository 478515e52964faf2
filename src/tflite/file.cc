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

// "tensor 3", "tensor 3 of subgraph 2"
std::string PlaceOf(const File& file, const char* what, size_t i) {
  return file.subgraph == 0 ? fmt::format("{} {}", what, i)
                            : fmt::format("{} {} of subgraph {}", what, i, file.subgraph);
}

// The subgraphs that an operator runs.
std::vector<int32_t> GraphsOf(const File& file, const fb::Operator& op) {
  constexpr int kIf = 118, kWhile = 119, kCallOnce = 129;
  switch (NumberOf(file.CodeOf(op))) {
    case kIf: {
      const auto* o = op.options_as_WithIf();
      return o == nullptr ? std::vector<int32_t>{0, 0}
                          : std::vector<int32_t>{o->then_graph(), o->else_graph()};
    }
    case kWhile: {
      const auto* o = op.options_as_WithWhile();
      return o == nullptr ? std::vector<int32_t>{0, 0}
                          : std::vector<int32_t>{o->cond_graph(), o->body_graph()};
    }
    case kCallOnce: {
      const auto* o = op.options_as_WithCallOnce();
      return {o == nullptr ? 0 : o->init_graph()};
    }
    default: return {};
  }
}

// Tensors, buffers and operators of one subgraph, in the order in which it is read.
class Checker {
 public:
  explicit Checker(const File& file) : file_(file) {}

  Status Run() {
    const fb::SubGraph& graph = file_.graph();
    known_.resize(SizeOf(graph.tensors()));
    for (size_t i = 0; i < known_.size(); ++i)
      EVOQ_TRY(WithContext(CheckTensor(i), PlaceOf(file_, "tensor", i)));
    EVOQ_TRY(CheckInputs());
    for (size_t i = 0; i < SizeOf(graph.operators()); ++i) {
      EVOQ_TRY(WithContext(CheckCode(i), PlaceOf(file_, "operator", i)));
      EVOQ_TRY(WithContext(CheckOperator(i), LabelOf(file_, i)));
    }
    for (unsigned i = 0; i < SizeOf(graph.outputs()); ++i)
      EVOQ_TRY(WithContext(CheckKnown(graph.outputs()->Get(i)), PlaceOf(file_, "output", i)));
    return {};
  }

  // Subgraphs that the operators run, in the order of these.
  const std::vector<unsigned>& runs() const { return runs_; }

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
        return InvalidInput("{} is tensor {} of {}", PlaceOf(file_, "input", i), t, known_.size());
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
    const auto graphs = static_cast<int64_t>(file_.model->subgraphs()->size());
    for (const int32_t g : GraphsOf(file_, op)) {
      if (g < 1 || g >= graphs)
        return InvalidInput("it runs subgraph {}, expected 1 to {}", g, graphs - 1);
      runs_.push_back(static_cast<unsigned>(g));
    }
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
  std::vector<unsigned> runs_;
};

// The first subgraph and all that it runs, each once.
Result<std::vector<unsigned>> CheckGraphs(const File& file) {
  std::vector<unsigned> reached = {0};
  std::vector<bool> seen(file.model->subgraphs()->size());
  seen[0] = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    const File at = file.At(reached[i]);
    Checker checker(at);
    EVOQ_TRY(checker.Run());
    for (const unsigned g : checker.runs()) {
      if (!seen[g]) reached.push_back(g);
      seen[g] = true;
    }
  }
  return reached;
}

}  // namespace

bool HasMark(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && fb::ModelBufferHasIdentifier(bytes.data());
}

File File::At(unsigned other) const {
  File file = *this;
  file.subgraph = other;
  return file;
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
  const std::string name = OperatorName(file.CodeOf(table));
  return file.subgraph == 0
             ? fmt::format("operator {} ({})", op, name)
             : fmt::format("operator {} ({}) of subgraph {}", op, name, file.subgraph);
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
  if (file.model->version() != kVersion)
    return Unsupported("version {} of the format, evoq reads {}", file.model->version(), kVersion);
  if (SizeOf(file.model->subgraphs()) == 0) return InvalidInput("the file holds no graph");
  if (SizeOf(file.graph().outputs()) == 0) return InvalidInput("the graph has no outputs");
  EVOQ_ASSIGN(file.reached, CheckGraphs(file));
  return file;
}

}  // namespace evoq::tflite
