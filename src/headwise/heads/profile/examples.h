// The rows of each head that are worth looking at: kept while a corpus streams
// by, so that a role can be seen; and the tokens that single heads rest on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/semantic.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/observation.h"

namespace headwise {

// The best row of each sequence, head and BestRow: [B, H, kBestRows]; −1: none.
struct BestRows {
  std::vector<int32_t> rows;
  std::vector<float> scores;
};
// Each window offers every head one row of each kind (Example::kind); those
// that rank among the kept are kept with their largest keys. Which these are
// does not depend on the order of the windows.
void KeepExamples(Context& context, const HeadSource& source,
                  const SiteResults& results, const BestRows& best,
                  const TokenTable& table, ProfilePlace place);

// As Profile::sinks.
using SinkCounts = std::vector<std::map<std::string, int64_t>>;
// Tokens that are sinks of one head only; `first_head` is the results' first.
void CountSinks(const SiteResults& results, const TokenTable& table,
                size_t first_head, SinkCounts& sinks);

}  // namespace headwise
