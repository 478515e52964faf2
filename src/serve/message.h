// Protocol buffers as untrusted bytes, and as what JSON says.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "serve/refusal.h"

namespace evoq::serve {

// Reads a message. An element of two bytes may take a hundred times that as an object: more than
// this many members, at any depth, are refused before the message is made (a packed list of numbers
// is one).
inline constexpr int64_t kMaxMembers = int64_t{1} << 16;

// Errors: kBadRequest for bytes that are no such message, kTooLarge for more members than that.
Served<void> ParseMessage(std::string_view bytes, google::protobuf::Message& message);

// The members of an object that the message has, by their names; others are left out. Errors:
// kFailed for values of other types.
Served<void> MessageOf(const nlohmann::json& object, google::protobuf::Message& message);

}  // namespace evoq::serve
