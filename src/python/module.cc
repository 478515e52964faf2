// evoq._evoq: what the package's Python files stand on.
#include <nanobind/nanobind.h>

#include "base/spare_blocks.h"
#include "base/version.h"
#include "python/language.h"
#include "python/model.h"
#include "python/streams.h"
#include "python/tools.h"

namespace evoq {

NB_MODULE(_evoq, m) {
  m.attr("__version__") = EVOQ_VERSION;
  // Outputs are arrays over memory of their own.
  KeepSpareBlocks(size_t{64} << 20);
  BindModel(m);
  BindStreams(m);
  BindLanguage(m);
  BindTools(m);
}

}  // namespace evoq
