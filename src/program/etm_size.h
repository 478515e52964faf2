// How large an .etm gets, without writing it.
#pragma once

#include "program/model.h"

namespace evoq {

// The size of the file that WriteEtm would write.
int64_t EtmBytes(const Model& model);
// The size of what it wrote, which a device or a pipe does not tell.
int64_t WrittenEtmBytes(const Model& model, const std::string& path);

}  // namespace evoq
