// Evo Tiny Model files. docs/etm.md documents them byte for byte.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "program/model.h"

namespace evoq {

// A stretch of the file and what it is for; the sections of a file cover it without gap or overlap.
struct EtmSection {
  std::string name;  // blob or constant name: "header", "directory", "graph", "weights/conv_1.w",
                     // "weights/padding"
  // "int8 weights", "float32 weights", "int32 bias", "scales", "zero points", "shape constants",
  // "attributes", "duplicates" (what an earlier constant holds already), "packing padding",
  // "alignment", "graph", "strings", "plans", "scale sets" (constants of a set are
  // "weights/SET/NAME", its share of the blob is "scale-sets/SET"), "header and directory"
  std::string category;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Nodes and constants that nothing reads stay out of the file. Errors: kIo. Atomic: the file is
// either written whole or not at all.
Status WriteEtm(const Model& model, const std::string& path);

// Maps and validates the file; constants point into the mapping. Every offset, count, shape
// product, enumeration and checksum is checked first. Errors: kInvalidInput naming the file, the
// place, what was found and what was expected.
Result<Model> ReadEtm(const std::string& path);
// The same of a file in memory, or of a copy of it; what is not copied begins at a multiple of
// kAlignment, and stays as it is while the constants are used. `name` stands for the path in
// messages. Errors: also kUsage for bytes that are null or not aligned.
Result<Model> ReadEtm(std::span<const std::byte> bytes, bool copy, const std::string& name);

// The file's sections in order; their bytes add up to the file's size.
Result<std::vector<EtmSection>> EtmSections(const std::string& path);

// A readable dump: header, directory, graph (Print), plans.
Result<std::string> DumpEtm(const std::string& path);

// Whether the file starts with the .etm magic. False when it cannot be read.
bool IsEtmFile(const std::string& path);

}  // namespace evoq
