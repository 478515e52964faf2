// The options of a text as attributes of a class of the module, by the command's names.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "generate/generate.h"
#include "python/error.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq {

// `options` (Class& -> GenerateOptions&) says where they are in it.
template <typename Class, typename Options>
void BindGenerateOptions(nanobind::class_<Class>& of, Options options) {
  const auto add = [&](const char* name, auto value) {  // GenerateOptions& -> Value&
    using Value = std::remove_reference_t<decltype(value(std::declval<GenerateOptions&>()))>;
    of.def_prop_rw(
        name, [=](Class& self) -> Value { return value(options(self)); },
        [=](Class& self, Value given) { value(options(self)) = std::move(given); });
  };
  add("max_tokens", [](GenerateOptions& o) -> auto& { return o.max_tokens; });
  add("temperature", [](GenerateOptions& o) -> auto& { return o.sampling.temperature; });
  add("top_k", [](GenerateOptions& o) -> auto& { return o.sampling.top_k; });
  add("top_p", [](GenerateOptions& o) -> auto& { return o.sampling.top_p; });
  add("min_p", [](GenerateOptions& o) -> auto& { return o.sampling.min_p; });
  add("repeat_penalty", [](GenerateOptions& o) -> auto& { return o.sampling.repeat_penalty; });
  add("presence_penalty", [](GenerateOptions& o) -> auto& { return o.sampling.presence_penalty; });
  add("frequency_penalty",
      [](GenerateOptions& o) -> auto& { return o.sampling.frequency_penalty; });
  add("logit_bias", [](GenerateOptions& o) -> auto& { return o.sampling.logit_bias; });
  add("min_tokens", [](GenerateOptions& o) -> auto& { return o.min_tokens; });
  add("stop_tokens", [](GenerateOptions& o) -> auto& { return o.stop_tokens; });
  add("seed", [](GenerateOptions& o) -> auto& { return o.sampling.seed; });
  add("stop", [](GenerateOptions& o) -> auto& { return o.stop; });
  // What is given is read at once; it cannot be read back.
  const auto add_form = [&](const char* name, auto read) {
    of.def_prop_rw(
        name, [](Class&) { return std::string(); },
        [=](Class& self, const std::string& text) { options(self).grammar = Unwrap(read(text)); });
  };
  add_form("grammar",
           [](const std::string& text) { return WithContext(ParseGrammar(text), "grammar"); });
  add_form("json_schema", [](const std::string& text) {
    return WithContext(GrammarOfSchema(text), "json_schema");
  });
  add("beams", [](GenerateOptions& o) -> auto& { return o.beams; });
  add("length_penalty", [](GenerateOptions& o) -> auto& { return o.length_penalty; });
  add("ignore_end", [](GenerateOptions& o) -> auto& { return o.ignore_end; });
}

}  // namespace evoq
