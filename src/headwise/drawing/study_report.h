// A study's result for people and for programs.
#pragma once

#include <span>
#include <string>

#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/study/study.h"

namespace headwise {

// Claim, expectation, kind; tables and pictures; every figure with what was
// expected of it and its word; the word of the whole, and why where intervals
// alone do not say it.
std::string StudyText(const Study& study, const StudyResult& result,
                      const Console& console);

// What a verdict needs and what was changed after a result: no run.
std::string StudyExplanation(const Study& study, const Console& console);
Json StudyHistoryJson(const Study& study);

// {"study", "claim", "kind", "verdict", "laws_held", "figures": {NAME:
// {"value", "expected", "decides", "verdict"}}, "seeds", "full", "steps",
// "revision", "hash", "changed_after_a_result", "seconds"} and the "text" that
// models were trained on; a figure has "why" where its interval alone does not
// give the word, "low", "high" and the "values" of each seed where it is of
// several, "least", "most", "bounds", "sequences", "chance", "best", a "kind"
// of its own and "information" where there are any.
Json StudyJson(const Study& study, const StudyResult& result);

// Records of one study on different seeds, as StudyJson gives them, with what a
// run adds ("machine", …), as one record: the values of all seeds in the
// records' order, judged anew. Intervals over held-out sequences, which cannot
// be taken from records, are left out. Throws Error(kInvalidArgument) for
// records of another study or of other hashes or texts, without values of each
// seed, or with the same seed twice.
Json PoolRecords(const Study& study, std::span<const Json> records);

// Its pictures below each other.
std::string StudySvg(const Study& study, const StudyResult& result);

// Name, kind and claim of every study.
std::string StudyListText(const Console& console);
Json StudyListJson();

}  // namespace headwise
