// The one table of roles: their words, and the rule by which a head gets one:
// which metric, how much of it, and what else must hold. Terminal, report and
// page take their words from here. Door of the folder: roles.h.
#pragma once

#include <cstdint>

#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

// Which heads a rule is for.
enum class RuleScope : uint8_t { kSelf, kCross, kAll };

// Whether a rule about text may be judged on random repeats, whose positions
// are as good as any text's.
enum class OnRepeats : uint8_t {
  kNo,
  kInstead,  // where there was no text
  kToo,      // also where it does not pass on text
};

struct RoleRule {
  const char* role;    // "previous-token"
  const char* word;    // up to six letters, for narrow cells
  char letter;         // in the terminal's map; no other role's
  const char* sign;    // two letters, in the page's grid; no other role's
  const char* family;  // whose colour the page gives it
  const char* says;    // what the head does, after "the head"
  const char* metric;  // of the profile: its mean is the score
  // The score's interval lies at or above it.
  double threshold;
  RuleScope scope = RuleScope::kSelf;
  OnRepeats repeats = OnRepeats::kNo;

  // Or: METRIC.argmax, the share of rows whose largest key is there, is at
  // least 90 %.
  bool positional = false;
  // And this far above, or so many times, what chance gives: METRIC.chance.
  double above_chance = 0;
  double times_chance = 0;
  // And below this.
  double below = std::numeric_limits<double>::infinity();
  // And no single offset passes.
  bool no_offset = false;
  // Also judged with the sinks left out: by METRIC.content.
  bool content = false;
  // Baselines of the material: score − the best of them ≥ threshold, over at
  // least so many cases.
  const char* baseline = nullptr;
  const char* second_baseline = nullptr;
  double least_cases = 0;

  // Named after all others: what another role brings with it.
  bool secondary = false;
  // Finds its key wherever it stands.
  bool reads_far = false;
  // How attention is spread, not what it is for: named last, and counted apart
  // from roles that say what a head does.
  bool shape = false;

  const char* material = "text";
  const char* means = "";  // one sentence for --explain
  const char* trap = "";   // how it misleads
};

// In the order in which equally strong roles are named.
std::span<const RoleRule> RoleRules();
// The rule of a role by its whole name, "offset -2", "syntactic(nsubj)"; null
// for a name that has none.
const RoleRule* FindRule(std::string_view role);

// What may be set by --thresholds besides a role's own: "argmax" and
// "content-mass".
inline constexpr double kArgmaxShare = 0.9;
inline constexpr double kContentMass = 0.1;

class RoleThresholds {
 public:
  // "induction=0.5": a role of the table, argmax or content-mass, and a number
  // between 0 and 1. Throws Error(kInvalidArgument) with the nearest name.
  void Set(std::string_view assignment);

  double Of(const RoleRule& rule) const {
    return Of(rule.role, rule.threshold);
  }
  double argmax() const { return Of("argmax", kArgmaxShare); }
  double content_mass() const { return Of("content-mass", kContentMass); }
  const std::map<std::string, double>& set() const { return set_; }

 private:
  double Of(const std::string& name, double otherwise) const {
    const auto found = set_.find(name);
    return found == set_.end() ? otherwise : found->second;
  }
  std::map<std::string, double> set_;
};

}  // namespace headwise
