#include <functional>
#include <utility>

#include "api/model_session.h"
#include "base/guarded.h"
#include "base/turn.h"
#include "base/version.h"
#include "evoq/evoq.h"

namespace evoq {
namespace {

void Say(std::string* to, const Error& error) {
  if (to != nullptr) *to = SentenceOf(error);
}

}  // namespace

// Whole bytes: not strings, whose elements are objects, nor elements of fewer than 8 bits.
std::size_t ElementBytes(ElementType type) {
  const auto dtype = DTypeFromOnnx(static_cast<int>(type));
  if (!dtype || *dtype == DType::kUndefined || *dtype == DType::kString) return 0;
  return static_cast<std::size_t>(DTypeBits(*dtype) / 8);
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
    if (__builtin_mul_overflow(n, d, &n)) return 0;  // a negative product does not fit either
  }
  return n;
}

struct Session::Impl {
  ModelSession session;
  std::vector<ArrayView> views;  // of a run; room for them
  std::vector<OutputMemory> memory;
  std::vector<Array> results;       // of Compute
  std::atomic<bool> taken = false;  // by a run that has not ended

  // Null, and why, where the model cannot be loaded.
  static std::unique_ptr<Impl> Of(const std::function<ModelSource()>& source,
                                  const SessionOptions& options, std::string* error) {
    auto impl = Guarded([&]() -> Result<std::unique_ptr<Impl>> {
      EVOQ_ASSIGN(ModelSession session, ModelSession::Load(source(), options));
      return std::unique_ptr<Impl>(new Impl{std::move(session), {}, {}, {}, false});
    });
    if (impl) return std::move(*impl);
    Say(error, impl.error());
    return nullptr;
  }
  Status Run(const std::vector<Array>& inputs, std::vector<Array>* outputs) {
    const Turn turn(taken);
    EVOQ_TRY(turn.Check("session"));
    if (&inputs == outputs)
      return Fail(ErrorCode::kUsage, "the outputs are the inputs, expected arrays of their own");
    views.clear();
    for (const Array& a : inputs) views.push_back({a.type, a.shape, a.bytes});
    return session.Run(views, outputs);
  }
  Status SetViews(const std::vector<InputView>& inputs) {
    views.clear();
    for (const InputView& input : inputs) {
      const auto bytes = CallersBytes(input.type, input.shape, input.data);
      if (!bytes) return WithContext(Status(tl::unexpected(bytes.error())), NameOf(views.size()));
      views.push_back({input.type, input.shape, *bytes});
    }
    return {};
  }
  Status RunOn(const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs) {
    const Turn turn(taken);
    EVOQ_TRY(turn.Check("session"));
    EVOQ_TRY(SetViews(inputs));
    memory.clear();
    for (const OutputView& o : outputs)
      memory.push_back({o.type, o.shape, static_cast<std::byte*>(o.data)});
    return session.RunOn(views, memory);
  }
  Status Compute(const std::vector<InputView>& inputs) {
    const Turn turn(taken);
    EVOQ_TRY(turn.Check("session"));
    const Status done = Guarded([&]() -> Status {
      EVOQ_TRY(SetViews(inputs));
      return session.Run(views, &results);
    });
    if (!done) results.clear();
    return done;
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
  auto impl = Impl::Of([&] { return ModelSource(path); }, options, error);
  if (impl == nullptr) return std::nullopt;
  return Session(std::move(impl));
}

std::optional<Session> Session::LoadMemory(const void* data, std::size_t size,
                                           const SessionOptions& options, std::string* error) {
  auto impl = Impl::Of([&] { return ModelSource(data, size); }, options, error);
  if (impl == nullptr) return std::nullopt;
  return Session(std::move(impl));
}

const std::vector<ArrayInfo>& Session::inputs() const { return impl_->session.inputs(); }
const std::vector<ArrayInfo>& Session::outputs() const { return impl_->session.outputs(); }

bool Session::Run(const std::vector<Array>& inputs, std::vector<Array>* outputs,
                  std::string* error) {
  const Status status = Guarded([&] { return impl_->Run(inputs, outputs); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

bool Session::RunOn(const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs,
                    std::string* error) {
  const Status status = Guarded([&] { return impl_->RunOn(inputs, outputs); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

bool Session::Compute(const std::vector<InputView>& inputs, std::string* error) {
  const Status status = Guarded([&] { return impl_->Compute(inputs); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

const std::vector<Array>& Session::results() const { return impl_->results; }

SizesReport Session::sizes() const {
  SizesReport report;
  (void)Guarded([&]() -> Status {
    report = ReportOf(impl_->session.gears(), inputs());
    return {};
  });
  return report;
}

std::string Session::SizesText() const {
  std::string text;
  (void)Guarded([&]() -> Status {
    text = CountsText(impl_->session.gears());
    return {};
  });
  return text;
}

void Session::WaitForGears() {
  (void)Guarded([&]() -> Status {
    impl_->session.WaitForGears();
    return {};
  });
}

std::optional<AdaptiveReport> Session::adaptive() const {
  std::optional<AdaptiveReport> report;
  (void)Guarded([&]() -> Status {
    const AdaptiveState* const state = impl_->session.adaptive();
    if (state != nullptr) report = ReportOf(*state);
    return {};
  });
  return report;
}

bool Session::PinScaleSet(const std::string& name, std::string* error) {
  const Status status = Guarded([&] { return impl_->session.PinScaleSet(name); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

const char* Version() { return EVOQ_VERSION; }

}  // namespace evoq
