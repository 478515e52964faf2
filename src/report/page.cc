#include "report/page.h"

#include "base/check.h"
#include "base/version.h"

// EVOQ_SENSITIVITY_HTML is the path of a file, given by the build.
__asm__(
    ".section .rodata\n"
    ".globl evoq_sensitivity_html_begin\nevoq_sensitivity_html_begin:\n"
    ".incbin \"" EVOQ_SENSITIVITY_HTML
    "\"\n"
    ".globl evoq_sensitivity_html_end\nevoq_sensitivity_html_end:\n.byte 0\n"
    ".text\n");
extern "C" const char evoq_sensitivity_html_begin[], evoq_sensitivity_html_end[];

namespace evoq {

std::string ScriptText(const nlohmann::json& value) {
  std::string out;
  for (char c : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

void ReplaceMark(std::string& page, std::string_view mark, std::string_view text) {
  const size_t at = page.find(mark);
  EVOQ_CHECK(at != std::string::npos);
  page.replace(at, mark.size(), text);
}

std::string SensitivityPage(nlohmann::json found) {
  found["version"] = EVOQ_VERSION;
  std::string page(evoq_sensitivity_html_begin, evoq_sensitivity_html_end);
  ReplaceMark(page, "@DATA@", ScriptText(found));
  return page;
}

}  // namespace evoq
