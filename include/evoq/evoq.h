// The C++ interface of evoq: load a model, run it.
//
//   std::string error;
//   auto session = evoq::Session::Load("mobilenetv2.etm", {}, &error);
//   if (!session) { std::cerr << error; return 1; }
//   std::vector<evoq::Array> outputs;
//   if (!session->Run({image}, &outputs, &error)) ...
//
// Needs C++17 and nothing of evoq's inner headers. Nothing throws, also when memory or threads run
// out; functions that can fail return an empty result and say why in *error, naming file, place,
// what was found and what was expected. What fails leaves no trace: a session works on as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace evoq {

// The element types that arrays carry; the numbers are ONNX's. A model with inputs or outputs of
// another type (strings, elements of fewer than 8 bits, complex numbers, sequences, optionals) is
// refused when it is loaded.
enum class ElementType : int {
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kFloat8E8M0 = 24
};
// Bytes of one element; 0 for a type that this interface does not carry.
std::size_t ElementBytes(ElementType type);

// A dense row-major array that owns its bytes. A bool is a byte of 0 or 1.
struct Array {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  // An array of zeros; without bytes, which no run accepts, where no array can be of this type and
  // shape or memory is short.
  static Array Zeros(ElementType type, std::vector<std::int64_t> shape);
  std::size_t size() const;  // elements; 0 where a size is negative or the product does not fit
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

// An array in memory that somebody else owns: dense, row-major, aligned as its elements are. `data`
// may be null where a size is 0.
struct InputView {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
};
struct OutputView {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;
};

// An input or output of a model. A free dimension is -1; the shape is empty for a scalar, and where
// the rank is not known.
struct ArrayInfo {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
};

// How the scale sets of an .etm (`evoq quantize --scale-sets`) follow the input from run to run:
// docs/adaptive.md.
struct AdaptiveSettings {
  double clip_limit = 0.005;  // the share of the watched elements that a set may cut off
  int widen_after = 1;        // looks in a row at which a set does not fit, before a wider one
  int narrow_after = 8;       // looks in a row at which a finer set fits, before it is taken
  int look_every = 0;         // runs from one look to the next; 0: so many that it costs 0.5%
  std::string scale_set;      // the set that is always used; "": they change
  bool watch = false;         // also of a file with one set: counts what its ranges cut off
};

struct SessionOptions {
  int threads = 0;                                // 0: one per physical core; at most 1024
  std::optional<AdaptiveSettings> adaptive = {};  // nothing: always the model's first scale set
  // Sizes that the file declares (`evoq compile --gears`) are prepared from now on, beside the
  // runs, and serve other batches exactly while those are prepared: docs/dynamic.md.
  bool gears = true;
  // Of LoadMemory: the session has a copy of the bytes.
  bool copy_memory = false;
};

// What served the runs of a session so far, by the sizes of their inputs.
struct SizesReport {
  std::int64_t gears = 0, ready = 0;  // declared in the file; of those, prepared
  // All runs; of those, that a gear of another batch served, and that waited until their sizes were
  // prepared.
  std::int64_t runs = 0, padded = 0, misses = 0;
  double miss_ms = 0, worst_miss_ms = 0;  // what those waited, in all and at most
  std::int64_t prepared_beside = 0;       // sets of sizes prepared while no run waited for them
  double beside_ms = 0;
  struct Sizes {
    std::vector<std::vector<std::int64_t>> shapes;  // of each input
    bool gear = false;
    std::int64_t runs = 0, padded = 0, misses = 0;
    double prepare_ms = 0;  // of preparing them, the last time
  };
  std::vector<Sizes> sizes;  // in the order of their shapes; at most 4096
};

// What was observed of one tensor of an adaptive session.
struct ClipRate {
  std::string tensor;
  std::int64_t seen = 0;     // elements that were looked at, of all runs
  std::int64_t clipped = 0;  // of those, cut off
};

// What an adaptive session did so far.
struct AdaptiveReport {
  std::vector<std::string> sets;
  std::size_t active = 0;  // of the next run
  std::int64_t runs = 0, looks = 0, switches = 0;
  std::vector<std::int64_t> runs_by_set;
  double clip_rate = 0;  // of the last look: the mean over the tensors
  std::vector<ClipRate> tensors;
};

// A loaded model (.etm; of libevoq also .onnx, .tflite, ...). One Run at a time, of any thread; a
// second one is an error that says so. Several sessions may run at once; one model for several
// callers is evoq/streams.h. A run takes up to 512 KiB of its caller's stack. docs/runtime.md says
// what else a host may rely on.
class Session {
 public:
  static std::optional<Session> Load(const std::string& path, const SessionOptions& options = {},
                                     std::string* error = nullptr);
  // The same of the `size` bytes of an .etm in memory, which are checked as a file's are (their
  // sizes, offsets and checksums). They begin at a multiple of 64 bytes (else they are refused),
  // are read where they lie, never written to, and stay as they are until the session is gone; any
  // number of sessions may share them. With copy_memory they begin anywhere, are copied, and may go
  // when this returns. Messages call the model "model". libevoq also takes the bytes of an ONNX or
  // TensorFlow Lite file, which begin anywhere and may go in any case.
  static std::optional<Session> LoadMemory(const void* data, std::size_t size,
                                           const SessionOptions& options = {},
                                           std::string* error = nullptr);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::vector<ArrayInfo>& inputs() const;
  const std::vector<ArrayInfo>& outputs() const;

  // Inputs in the order of inputs(). Their shapes choose the plan: the first run at a new shape
  // prepares it. The outputs' shapes may depend on the inputs' content (NonZero, NonMaxSuppression,
  // Loop). Where they do not, outputs keep their memory when they come back in with the right size:
  // a repeated run at one shape allocates nothing, where kernels take all operators. After an error
  // *outputs holds anything. A model file that is cut short in place meanwhile is an error, from
  // then on; one that is replaced by renaming is not noticed.
  bool Run(const std::vector<Array>& inputs, std::vector<Array>* outputs,
           std::string* error = nullptr);

  // As Run, on memory of the caller: inputs are read where they lie, outputs are written into the
  // caller's buffers, and nothing is copied (a model that runs in dynamic partitions,
  // docs/dynamic.md, copies each output once). The outputs' types and shapes must be the model's
  // for these inputs, and their memory must overlap neither an input's nor another output's: else
  // none is written. After another error they hold anything.
  bool RunOn(const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs,
             std::string* error = nullptr);

  // As Run, with outputs in memory of the session: results(), until its next Compute. For outputs
  // whose shapes are not known before. After an error there are none.
  bool Compute(const std::vector<InputView>& inputs, std::string* error = nullptr);
  const std::vector<Array>& results() const;

  // What served the runs so far. A model that runs in dynamic partitions tells of none.
  SizesReport sizes() const;
  // How often which sizes came, as lines: the file of `evoq compile --suggest-gears`.
  std::string SizesText() const;
  // Until all gears of the file are prepared.
  void WaitForGears();

  // Of a session that was loaded as adaptive; nothing of another one.
  std::optional<AdaptiveReport> adaptive() const;
  // Further runs use the scale set of this name; "": they change again. False where the session is
  // not adaptive, or has no set of that name.
  bool PinScaleSet(const std::string& name, std::string* error = nullptr);

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Decodes a JPEG or PNG and makes it a batch of one as a preprocess file says (docs/preprocess.md).
std::optional<Array> LoadImage(const std::string& image, const std::string& preprocess_json,
                               std::string* error = nullptr);

// "0.1.0".
const char* Version();

}  // namespace evoq
