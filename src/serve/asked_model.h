// The model that a request in JSON asks for.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "serve/exchange.h"
#include "serve/repository.h"

namespace evoq::serve {

// An object of at most 4 MiB. Errors: kTooLarge, kBadRequest.
Served<nlohmann::json> ObjectOf(const Exchange& ask);
// By the member `model`; where there is none, the only language model. Errors: kBadRequest,
// kNotFound.
Served<std::shared_ptr<ServedModel>> ModelNamed(const Repository& repository,
                                                const nlohmann::json& root);
// The same of encoders, and of rerankers.
Served<std::shared_ptr<ServedModel>> EmbedderNamed(const Repository& repository,
                                                   const nlohmann::json& root);
Served<std::shared_ptr<ServedModel>> RerankerNamed(const Repository& repository,
                                                   const nlohmann::json& root);
// The language model that a request asks for, which the log names. Errors: as above.
Served<std::shared_ptr<ServedModel>> TextModelAsked(const Repository& repository, Exchange& ask);
Served<std::shared_ptr<ServedModel>> TextModelAsked(const Repository& repository, Exchange& ask,
                                                    const nlohmann::json& root);

}  // namespace evoq::serve
