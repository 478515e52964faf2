#include "python/language.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "base/guarded.h"
#include "language/session.h"
#include "python/arrays.h"
#include "python/error.h"
#include "python/follow.h"
#include "python/generate_options.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

using Tokens = std::vector<int64_t>;

nb::object TextOf(std::string_view text) {
  return nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
}

// What `task` gives, run without the GIL.
template <typename Task>
auto Free(const Task& task) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return Guarded(task);
  }();
  return Unwrap(std::move(result));
}

nb::dict ToPython(const Generated& g) {
  nb::dict out;
  out["text"] = TextOf(g.text);
  out["tokens"] = g.tokens;
  out["ended"] = EndedName(g.ended);
  out["prompt_tokens"] = g.prompt_tokens;
  out["prompt_ms"] = g.prompt_ms;
  out["decode_ms"] = g.decode_ms;
  out["host_ms"] = g.host_ms;
  out["drafted"] = g.drafted;
  out["accepted"] = g.accepted;
  return out;
}

// A text under way. Its model outlives it (keep_alive).
class PyText {
 public:
  PyText(LanguageSession& session, const Tokens& prompt, const GenerateOptions& options)
      : new_text_(std::make_unique<std::string>()) {
    const OnText hear = [to = new_text_.get()](std::string_view text) {
      to->append(text);
      return true;
    };
    writing_.emplace(Free([&] { return session.writer().Begin(prompt, options, hear); }));
  }
  // What a run of the model brings: its text, "" where no character is complete; None at the end.
  nb::object Step() {
    if (ended_) return nb::none();
    ended_ = !Free([&] { return writing_->Advance(); });
    return TextOf(std::exchange(*new_text_, ""));
  }
  // The last text, and all that is known.
  nb::tuple Finish() {
    ended_ = true;
    const Generated done = Free([&] { return writing_->Finish(); });
    return nb::make_tuple(TextOf(std::exchange(*new_text_, "")), ToPython(done));
  }

 private:
  std::unique_ptr<std::string> new_text_;  // since the last step
  std::optional<Writing> writing_;
  bool ended_ = false;
};

LanguageSession* Load(const std::string& path, int threads, int64_t context, int64_t sequences,
                      const std::string& tokenizer, const std::string& draft,
                      const std::string& kv_cache) {
  const LanguageOptions options{threads, context, sequences, tokenizer, draft, kv_cache};
  return Free([&] { return LanguageSession::Load(path, options); }).release();
}

// Text i draws with the seed + i: prompts that are equal have texts of their own.
// `on_text`: None, or called with the request's number and the text; False ends that one. An
// exception of it, and a signal's, ends all.
nb::list WriteMany(LanguageSession& session, const std::vector<Tokens>& prompts,
                   const GenerateOptions& options, nb::object on_text) {
  std::vector<Request> requests;
  for (const Tokens& prompt : prompts) {
    requests.push_back({prompt, options});
    requests.back().options.sampling.seed += requests.size() - 1;
  }
  PyFollow python((nb::none()));
  const Follow follow = python.follow();
  std::exception_ptr raised;
  const auto hear = [&](size_t request, std::string_view text) {
    if (raised) return false;
    const nb::gil_scoped_acquire gil;
    try {
      if (!on_text.is_none()) return on_text(request, TextOf(text)).ptr() != Py_False;
    } catch (const nb::python_error&) {
      raised = std::current_exception();
      return false;
    }
    return true;
  };
  const auto cancelled = [&] { return raised || !follow.At("generating", 0); };
  const std::vector<Generated> texts =
      Free([&] { return session.GenerateMany(requests, hear, cancelled); });
  if (raised) std::rethrow_exception(raised);
  python.Rethrow();
  nb::list out;
  for (const Generated& text : texts) out.append(ToPython(text));
  return out;
}

nb::object Logits(LanguageSession& session, const Tokens& tokens, int64_t last) {
  const std::span<const float> rows = Free([&] { return session.writer().Logits(tokens, last); });
  Tensor copy =
      Tensor::Allocate(TensorType(DType::kFloat32, Shape{last, session.model().vocabulary()}));
  std::memcpy(copy.mutable_raw(), rows.data(), rows.size_bytes());
  return Unwrap(evoq::ToPython(copy));
}

nb::object Chat(const LanguageSession& session, const std::string& variables) {
  const std::string text = Free([&]() -> Result<std::string> {
    EVOQ_ASSIGN(nlohmann::ordered_json parsed, JsonOf(variables, "a chat's variables"));
    return session.Chat(std::move(parsed));
  });
  return TextOf(text);
}

}  // namespace

void BindLanguage(nb::module_& m) {
  nb::class_<GenerateOptions> options(m, "GenerateOptions");
  options.def(nb::init<>());
  BindGenerateOptions(options, [](GenerateOptions& o) -> auto& { return o; });
  options.def_rw("begin", &GenerateOptions::begin);
  nb::class_<PyText>(m, "Text").def("step", &PyText::Step).def("finish", &PyText::Finish);
  nb::class_<LanguageSession>(m, "LanguageModel")
      .def_static("load", &Load, "path"_a, "threads"_a, "context"_a, "sequences"_a, "tokenizer"_a,
                  "draft"_a, "kv_cache"_a)
      .def_prop_ro("threads", [](const LanguageSession& s) { return s.model().threads(); })
      .def_prop_ro("vocabulary", [](const LanguageSession& s) { return s.model().vocabulary(); })
      .def_prop_ro("context", [](const LanguageSession& s) { return s.model().context(); })
      .def_prop_ro("sequences", [](const LanguageSession& s) { return s.model().slots(); })
      .def_prop_ro("cache_bytes", &LanguageSession::cache_bytes)
      .def_prop_ro("ends", &LanguageSession::ends)
      .def_prop_ro("has_tokenizer", &LanguageSession::has_tokenizer)
      .def_prop_ro("has_chat_template", &LanguageSession::has_chat_template)
      .def_prop_ro("tokens", [](const LanguageSession& s) { return s.writer().tokens(); })
      .def(
          "encode",
          [](const LanguageSession& s, const std::string& text, bool add_special) {
            return Free([&] { return s.Encode(text, add_special); });
          },
          "text"_a, "add_special"_a)
      .def(
          "encode_source",
          [](const LanguageSession& s, const std::string& text, const std::string& source,
             const std::string& target, bool add_special) {
            const SourceText out =
                Free([&] { return s.EncodeSource(text, {source, target}, add_special); });
            return nb::make_tuple(out.tokens, out.begin);
          },
          "text"_a, "source"_a, "target"_a, "add_special"_a)
      .def(
          "decode",
          [](const LanguageSession& s, const Tokens& tokens, bool special) {
            return TextOf(Free([&] { return s.Decode(tokens, special); }));
          },
          "tokens"_a, "special"_a)
      .def("chat", &Chat, "variables"_a)
      .def(
          "begin",
          [](LanguageSession& s, const Tokens& prompt, const GenerateOptions& o) {
            return new PyText(s, prompt, o);
          },
          "prompt"_a, "options"_a, nb::keep_alive<0, 1>(), nb::rv_policy::take_ownership)
      .def("generate_many", &WriteMany, "prompts"_a, "options"_a, "on_text"_a.none())
      .def("logits", &Logits, "tokens"_a, "last"_a)
      .def("forget", [](LanguageSession& s) { s.writer().Forget(); })
      .def(
          "save",
          [](const LanguageSession& s, const std::string& path) {
            Free([&]() -> Status { return s.writer().Save(path); });
          },
          "path"_a)
      .def(
          "restore",
          [](LanguageSession& s, const std::string& path) {
            Free([&]() -> Status { return s.writer().Restore(path); });
          },
          "path"_a);
}

}  // namespace evoq
