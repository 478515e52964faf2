#include <utility>

#include "api/model_session.h"
#include "base/guarded.h"
#include "base/printable.h"
#include "base/version.h"
#include "data/dataset.h"
#include "evoq/evoq.h"

namespace evoq {
namespace {

void Say(std::string* to, const Error& error) {
  if (to == nullptr) return;
  try {
    *to = Printable(error.message());
  } catch (const std::bad_alloc&) {
    *to = "out of memory";  // short enough to need none
  }
}

Array ToArray(const Tensor& tensor) {
  Array a;
  a.type = static_cast<ElementType>(tensor.dtype());
  a.shape = tensor.sizes();
  a.bytes.assign(tensor.raw(), tensor.raw() + tensor.bytes());
  return a;
}

}  // namespace

std::size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
    case ElementType::kFloat8E4M3FN:
    case ElementType::kFloat8E4M3FNUZ:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2FNUZ:
    case ElementType::kFloat8E8M0:
      return 1;
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kFloat32:
    case ElementType::kInt32:
    case ElementType::kUint32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kFloat64:
    case ElementType::kUint64:
      return 8;
  }
  return 0;
}

Array Array::Zeros(ElementType type, std::vector<std::int64_t> shape) {
  Array a;
  a.type = type;
  a.shape = std::move(shape);
  (void)Guarded([&]() -> Status {
    EVOQ_ASSIGN(const size_t bytes, BytesOf(type, a.shape));
    a.bytes.resize(bytes);
    return {};
  });
  return a;
}

std::size_t Array::size() const {
  std::size_t n = 1;
  for (std::int64_t d : shape) {
    if (d <= 0) return 0;
    if (__builtin_mul_overflow(n, static_cast<std::size_t>(d), &n)) return 0;
  }
  return n;
}

struct Session::Impl {
  ModelSession session;
  std::vector<ArrayView> views;  // of a run; room for them

  Status Run(const std::vector<Array>& inputs, std::vector<Array>* outputs) {
    if (&inputs == outputs)
      return Fail(ErrorCode::kUsage, "the outputs are the inputs, expected arrays of their own");
    views.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Array& a = inputs[i];
      // Whether the bytes are those of type and shape; whether these are the model's, the session
      // says.
      const auto bytes = BytesOf(a.type, a.shape);
      if (!bytes) return WithContext(Status(tl::unexpected(bytes.error())), NameOf(i));
      if (*bytes != a.bytes.size())
        return Fail(ErrorCode::kUsage, "{}: {} bytes for shape {}, expected {}", NameOf(i),
                    a.bytes.size(), Shape(a.shape).ToString(), *bytes);
      views.push_back({a.type, a.shape, a.bytes.data()});
    }
    return session.Run(views, outputs);
  }

  std::string NameOf(size_t input) const {
    return input < session.inputs().size() ? "input " + session.inputs()[input].name
                                           : fmt::format("input {}", input);
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::optional<Session> Session::Load(const std::string& path, const SessionOptions& options,
                                     std::string* error) {
  auto impl = Guarded([&]() -> Result<std::unique_ptr<Impl>> {
    EVOQ_ASSIGN(ModelSession session, ModelSession::Load(path, options.threads));
    return std::unique_ptr<Impl>(new Impl{std::move(session), {}});
  });
  if (impl) return Session(std::move(*impl));
  Say(error, impl.error());
  return std::nullopt;
}

const std::vector<ArrayInfo>& Session::inputs() const { return impl_->session.inputs(); }
const std::vector<ArrayInfo>& Session::outputs() const { return impl_->session.outputs(); }

bool Session::Run(const std::vector<Array>& inputs, std::vector<Array>* outputs,
                  std::string* error) {
  const Status status = Guarded([&] { return impl_->Run(inputs, outputs); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

std::optional<Array> LoadImage(const std::string& image, const std::string& preprocess_json,
                               std::string* error) {
  auto array = Guarded([&]() -> Result<Array> {
    EVOQ_ASSIGN(const Preprocess how, LoadPreprocess(preprocess_json));
    EVOQ_ASSIGN(const Tensor tensor, LoadInput(image, how));
    return ToArray(tensor);
  });
  if (array) return std::move(*array);
  Say(error, array.error());
  return std::nullopt;
}

const char* Version() { return EVOQ_VERSION; }

}  // namespace evoq
