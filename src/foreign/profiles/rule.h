// Rules that judge a measured run of another runtime: one row each, named by one line in
// foreign/profiles/rules.inc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "foreign/profiles/foreign_run.h"
#include "foreign/profiles/wiring.h"

namespace evoq {

// A layer, and the part of its time that the rule says is lost.
struct Loss {
  size_t layer = 0;
  double ms = 0;
};

// What a rule sees.
struct ProfileCase {
  const ForeignRun& run;
  const ForeignRun* baseline;  // null without one
  Wiring wiring;               // of the run
};

struct ProfileRule {
  const char* code;
  const char* tool;      // the ForeignRun::tool it judges, several between spaces, "" every one
  const char* sentence;  // what is wrong
  const char* fix;       // what helps
  const char* source;    // where the fact can be checked, with its version
  // A layer belongs to the first rule that names it, once: Diagnose leaves out what names it again.
  std::vector<Loss> (*find)(const ProfileCase& c);
  bool doubt =
      false;  // says what cannot be told: reported with no loss, of layers that no other rule names
};

std::span<const ProfileRule* const> AllProfileRules();

struct Finding {
  const ProfileRule* rule = nullptr;
  double ms = 0;  // lost, as measured with the profiler on
  std::vector<std::string> layers;
};

// Every rule over a run; findings with the largest loss first. Losses under a microsecond in sum
// are not reported, and leave their layers to other rules.
struct Diagnosis {
  std::vector<Finding> findings;
  double ideal_ms =
      0;  // with a baseline: its layers, each at its time scaled by 8 over the bits it computes in
  double below_ideal_ms = 0;  // with a baseline: what the other layers take above ideal_ms
};
Diagnosis Diagnose(const ForeignRun& run, const ForeignRun* baseline);

// For rules: the layers that are so, each losing that share of its time.
std::vector<Loss> LossesWhere(const ForeignRun& run,
                              const std::function<bool(const ForeignLayer&)>& so, double share = 1);
bool IsFloat(const std::string& precision);  // of more than 8 bits
// The share of a layer's time that computing in 8 bits instead would save: none of integers, which
// are what they are.
double NarrowingShare(const ForeignLayer& layer);

}  // namespace evoq
