// Room: tokenizer
// Chat templates: each is rendered or refused, within the limits of run.sh and of templates.
#include <iterator>

#include "base/check.h"
#include "tests/fuzz/time_limit.h"
#include "tests/fuzz/word_mutator.h"
#include "tokenizer/chat_template.h"

namespace {

using namespace evoq;
using nlohmann::ordered_json;

constexpr std::string_view kWords[] = {"{{ ",
                                       " }}",
                                       "{% ",
                                       " %}",
                                       "{%- ",
                                       " -%}",
                                       "{# ",
                                       " #}",
                                       "for m in messages",
                                       "endfor",
                                       "if ",
                                       "elif ",
                                       "else",
                                       "endif",
                                       "set x = ",
                                       "set ns = namespace(i=0)",
                                       "ns.i",
                                       "endset",
                                       "macro f(a, b=1)",
                                       "endmacro",
                                       "f(1, b=2)",
                                       "break",
                                       "continue",
                                       "generation",
                                       "endgeneration",
                                       "messages",
                                       "message",
                                       "tools",
                                       "bos_token",
                                       "add_generation_prompt",
                                       "loop.index",
                                       "loop.last",
                                       "loop.previtem",
                                       "m['role']",
                                       "m.content",
                                       "[0]",
                                       "[1:]",
                                       "[::-1]",
                                       "[-1]",
                                       "range(9)",
                                       "range(1000000)",
                                       "dict(a=1)",
                                       "raise_exception('x')",
                                       "|trim",
                                       "|tojson",
                                       "|tojson(indent=2)",
                                       "|join(', ')",
                                       "|length",
                                       "|map(attribute='role')",
                                       "|selectattr('role', 'equalto', 'user')",
                                       "|reject('none')",
                                       "|default('')",
                                       "|replace('a', 'b')",
                                       "|dictsort",
                                       "|items",
                                       "|list",
                                       "|string",
                                       "|safe",
                                       "|indent(4)",
                                       "|int",
                                       "|float",
                                       ".split('</think>')",
                                       ".strip()",
                                       ".startswith('a')",
                                       ".items()",
                                       ".get('x')",
                                       " is defined",
                                       " is not none",
                                       " is string",
                                       " is mapping",
                                       " in ",
                                       " not in ",
                                       " and ",
                                       " or ",
                                       "not ",
                                       " if x else y",
                                       " ~ ",
                                       " + ",
                                       " - ",
                                       " * ",
                                       " / ",
                                       " // ",
                                       " % ",
                                       " ** ",
                                       " == ",
                                       " != ",
                                       " < ",
                                       ">=",
                                       "'text'",
                                       "\"\\n\"",
                                       "1",
                                       "0",
                                       "-1",
                                       "9223372036854775807",
                                       "1e308",
                                       "true",
                                       "none",
                                       "[1, 2]",
                                       "{'a': 1}",
                                       "(",
                                       ")",
                                       "[",
                                       "]",
                                       ", ",
                                       ": ",
                                       "'",
                                       "\\",
                                       "\xC3\xA9",
                                       "\xFF",
                                       "\n"};

const std::vector<std::string>& Seeds() {
  static const std::vector<std::string> seeds = {
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      "{{ bos_token }}{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m['role'] "
      "== "
      "'user' %}{%- set ns.last = loop.index0 %}[INST] {{ m['content'] | trim }} [/INST]{%- elif "
      "m.role == 'assistant' %}{{ m.content ~ eos_token }}{%- else %}{{ raise_exception('role') }}"
      "{%- endif %}{%- endfor %}",
      "{%- if tools %}{{- '# Tools\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}"
      "{%- endif %}{%- for message in messages[::-1] %}{%- set i = (messages|length - 1) - "
      "loop.index0 %}{%- if message.content is string and not(message.content.startswith('<t>')) %}"
      "{{ message.content.split('</think>')[-1].lstrip('\\n') }}{%- endif %}{%- endfor %}",
      "{% macro show(x, depth=0) %}{% if x is mapping %}{% for k, v in x | items %}{{ k }}: "
      "{{ show(v, depth + 1) }}{% endfor %}{% else %}{{ x }}{% endif %}{% endmacro %}"
      "{{ show(tools[0]) }}{{ messages | map(attribute='role') | join(', ') }}",
      "{% set text %}a{{ messages[0].role | upper }}{% endset %}{{ text[1:3] }}{{ {'a': [1, 2]}.a "
      "| length }}{% generation %}{{ 1 if messages else 2 }}{% endgeneration %}"};
  return seeds;
}

const ordered_json& Variables() {
  static const ordered_json variables = {
      {"messages",
       {{{"role", "system"}, {"content", " Be brief. "}},
        {{"role", "user"}, {"content", "2 < 3 & \"\xC3\xA9\"\n"}},
        {{"role", "assistant"},
         {"content", nullptr},
         {"tool_calls", {{{"function", {{"name", "add"}, {"arguments", {{"a", 1.5}}}}}}}}},
        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "x"}}}}}}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "add"}, {"parameters", {}}}}}}},
      {"add_generation_prompt", true},
      {"bos_token", "<s>"},
      {"eos_token", "</s>"}};
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TimeLimit limit;
  const auto check = [](const Error& error) {
    EVOQ_CHECK(error.code() != ErrorCode::kInternal, "{}", error.message());
    EVOQ_CHECK(error.message().size() < 4096, "an error of {} bytes", error.message().size());
  };
  const auto made = ChatTemplate::Parse({reinterpret_cast<const char*>(data), size});
  if (!made) return check(made.error()), 0;
  for (const ordered_json& variables : {Variables(), ordered_json::object()}) {
    if (const auto text = made->Render(variables); !text) check(text.error());
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return evoq::fuzz::MutateText(data, size, max_size, seed, kWords, Seeds());
}
