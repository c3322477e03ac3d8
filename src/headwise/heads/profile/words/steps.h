// What the runs over word-level material share.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "headwise/base/stop.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"

namespace headwise {

// Tells how far the run is. Throws Error(kCancelled) when it is to stop.
inline void ReportOrStop(const WordOptions& options, const char* stage,
                         size_t done, size_t total) {
  ThrowIfStopped(options.stop, stage);
  if (!options.progress) return;
  options.progress(stage, static_cast<double>(done),
                   static_cast<double>(total));
}

// `heads` are those of a profile, in order.
inline size_t HeadIndex(const std::vector<HeadRef>& heads,
                        const HeadRef& head) {
  return std::lower_bound(heads.begin(), heads.end(), head) - heads.begin();
}

}  // namespace headwise
