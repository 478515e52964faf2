// How large an .etm gets, without writing it.
#pragma once

#include "program/model.h"

namespace evoq {

// The size of the file that WriteEtm would write.
int64_t EtmBytes(const Model& model);

}  // namespace evoq
