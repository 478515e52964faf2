// The methods of inference.GRPCInferenceService. gRPC is HTTP: a method is a POST to
// /inference.GRPCInferenceService/NAME whose body is a message, and so is its answer. What carries
// them is in grpc_server.h; what they mean, the service knows from HTTP.
#pragma once

#include <string_view>

#include "serve/http.h"
#include "serve/service.h"

namespace evoq::serve {

// Whether the method takes and gives streams of messages; each of them is a request then.
bool IsStream(std::string_view target);

// As Service::Handle. What is answered is a message, or an error (HttpResponse::error).
void HandleRpc(Service& service, std::shared_ptr<HttpRequest> request,
               std::shared_ptr<Reply> reply);

}  // namespace evoq::serve
