// Results as people read them and as programs do.
#pragma once

#include <string>
#include <vector>

#include "bench/measure.h"
#include "headwise/base/json.h"

namespace headwise::bench {

// {"cpu": …, "cores": …, "isa": …, …, "peers": […]}
Json DescribeMachine(const std::vector<std::string>& peer_versions);

Json ToJson(const Row& row);

// One table for rows of one problem: ours and peers', with the ratio to the
// fastest peer of as many threads, the cost of statistics over none, and the
// gain of threads over one.
std::string Table(const std::vector<Row>& rows);

}  // namespace headwise::bench
