// The profile that a report rests on: read from a file, or made of its texts.
#pragma once

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/make_report.h"

namespace headwise {

// Throws Error(kInvalidArgument) for a profile of another model, and
// Error(kCancelled) when stopped.
Profile ProfileForReport(Context& context, const Checkpoint& checkpoint,
                         const ReportOptions& options);

}  // namespace headwise
