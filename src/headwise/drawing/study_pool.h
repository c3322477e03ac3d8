// Records of one study on different seeds as one record.
#pragma once

#include <span>

#include "headwise/base/json.h"
#include "headwise/study/study.h"

namespace headwise {

// records: as StudyJson gives them, with what a run adds ("machine", …). The
// values of all seeds in the records' order, judged anew; intervals over
// held-out sequences, which cannot be taken from records, are left out. Throws
// Error(kInvalidArgument) for records of another study or of other hashes or
// texts, without values of each seed, or with the same seed twice.
Json PoolRecords(const Study& study, std::span<const Json> records);

}  // namespace headwise
