// The version of evoq. CMakeLists.txt reads it from this line.
#pragma once

#define EVOQ_VERSION "0.1.0"
