// Ranks that run unlike things must not add up their numbers: before the first
// part of the work they compare what each of them runs.
#pragma once

#include <span>

#include "headwise/dist/group.h"
#include "headwise/work_group.h"

namespace headwise::dist {

// A collective call. Throws Error(kInvalidArgument), the same on every rank,
// where a field is not the same on all of them: it names the first fields that
// differ, and what which rank has.
void RequireSameRun(Group& group, std::span<const RunField> fields);

}  // namespace headwise::dist
