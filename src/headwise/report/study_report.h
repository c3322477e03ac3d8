// A study's result for people and for programs.
#pragma once

#include <string>

#include "headwise/base/json.h"
#include "headwise/report/text.h"
#include "headwise/study/study.h"

namespace headwise {

// Claim, expectation, kind; tables and pictures; every figure with what was
// expected of it; HELD or DID NOT HOLD, in brackets where only indicative.
std::string StudyText(const Study& study, const StudyResult& result,
                      const Console& console);

// {"study", "claim", "kind", "held" (bool or "indicative"), "figures": {NAME:
// {"value", "expected", "held"}}, "seeds", "seconds"}; figures over several
// seeds also have "low" and "high", their 95 % interval, and those of another
// kind than the study's "kind".
Json StudyJson(const Study& study, const StudyResult& result);

// Its pictures below each other.
std::string StudySvg(const Study& study, const StudyResult& result);

// Name, kind and claim of every study.
std::string StudyListText(const Console& console);
Json StudyListJson();

}  // namespace headwise
