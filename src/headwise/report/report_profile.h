// The profile that a report rests on: read from a file, or made of its texts.
#pragma once

#include <filesystem>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/report/make_report.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Throws Error(kInvalidArgument) for a profile of another model, and
// Error(kCancelled) when stopped.
Profile ProfileForReport(Context& context, const Model& model,
                         const Tokenizer* tokenizer,
                         const std::filesystem::path& folder,
                         const ReportOptions& options);

}  // namespace headwise
