// Classes of heads. Door: classes.h.
#include "headwise/heads/importance/classes.h"

#include <cmath>

namespace headwise {

const char* Name(HeadClass kind) {
  switch (kind) {
    case HeadClass::kCritical:
      return "critical";
    case HeadClass::kNegative:
      return "negative";
    case HeadClass::kRedundant:
      return "redundant";
    case HeadClass::kBackup:
      return "backup";
    case HeadClass::kNoise:
      return "noise";
    case HeadClass::kAuxiliary:
      return "auxiliary";
  }
  return "?";
}

const char* Describe(HeadClass kind) {
  switch (kind) {
    case HeadClass::kCritical:
      return "closing it costs more than 1 % of the loss";
    case HeadClass::kNegative:
      return "closing it helps by more than a least size, on two splits of the "
             "text";
    case HeadClass::kRedundant:
      return "closing it changes nothing and a twin has the same pattern";
    case HeadClass::kBackup:
      return "closing it with another head costs more than both apart";
    case HeadClass::kNoise:
      return "closing it changes nothing and it has no role";
    case HeadClass::kAuxiliary:
      return "none of the others";
  }
  return "";
}

bool IsQuiet(const Interval& delta, double scale) {
  const double limit = kCriticalShare * scale;
  if (std::abs(delta.value) < kNegligibleShare * scale && delta.high < limit &&
      delta.low > -limit) {
    return true;
  }
  return delta.low <= 0 && delta.high >= 0 && delta.high < limit &&
         delta.low > -limit;
}

std::vector<HeadClass> Classify(const ClassEvidence& evidence) {
  auto given = [](const std::vector<bool>& known, size_t i) {
    return !known.empty() && known[i];
  };
  std::vector<HeadClass> classes;
  for (size_t i = 0; i < evidence.delta.size(); ++i) {
    const Interval& delta = evidence.delta[i];
    const bool quiet = IsQuiet(delta, evidence.scale);
    HeadClass kind = HeadClass::kAuxiliary;
    if (delta.low > kCriticalShare * evidence.scale) {
      kind = HeadClass::kCritical;
    } else if (given(evidence.negative, i)) {
      kind = HeadClass::kNegative;
    } else if (quiet && given(evidence.has_twin, i)) {
      kind = HeadClass::kRedundant;
    } else if (given(evidence.backup, i)) {
      kind = HeadClass::kBackup;
    } else if (quiet && !evidence.has_role.empty() && !evidence.has_role[i]) {
      kind = HeadClass::kNoise;
    }
    classes.push_back(kind);
  }
  return classes;
}

}  // namespace headwise
