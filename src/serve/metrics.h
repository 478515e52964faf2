// Counters as Prometheus reads them, under Triton's names.
#pragma once

#include <string>

#include "serve/repository.h"
#include "serve/server.h"

namespace evoq::serve {

// The page of GET /metrics, in Prometheus's text format. `counts` may be null.
std::string MetricsPage(const Repository& repository, const ServerCounts* counts);

}  // namespace evoq::serve
