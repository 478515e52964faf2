// OpenAI's requests for responses, in the words of its chats.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/openai_request.h"

namespace evoq::serve {

inline constexpr char kNotKept[] = "responses are not kept by this server";

// Errors: as ReadChat's, which name the members of responses.
Result<TextAsked> ReadResponse(const nlohmann::ordered_json& root, const TextModel& model);

// The same request of a chat, and what the answer says again of it. Errors: as above.
struct ChatOfResponse {
  nlohmann::ordered_json chat;
  nlohmann::json repeated;
  std::vector<std::string> ignored;  // members of chats, which responses do not have
};
Result<ChatOfResponse> AsChat(const nlohmann::ordered_json& root);

}  // namespace evoq::serve
