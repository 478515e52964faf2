// What the server does, as a page for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "serve/repository.h"
#include "serve/server.h"

namespace evoq::serve {

// Models, their versions, what they did in the last minutes and in all, and where the bytes of
// their files went. `counts` may be null.
nlohmann::json StatusOf(const Repository& repository, const ServerCounts* counts, bool ready);

// The page: one file that needs no other. It shows the data and asks for /status.json from time to
// time; without data (null) it asks for a token first. Names in the data come from files and
// clients: they are data to the page, never markup.
std::string PageOfStatus(const nlohmann::json& data);

}  // namespace evoq::serve
