// A report in plain words: the sentences at its top, roles by layer third, and
// what is printed in the terminal.
#pragma once

#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/heads/roles/roles.h"

namespace headwise {

// {"with_role", "only_shape", "thirds": [{"name", "layers", "heads", "counts":
// {role: heads}}]}: in thirds each head counts once, by its first role without
// its parameter.
Json ThirdsJson(const std::vector<HeadRoles>& roles);

// What a reader should know first, from a report that has all else.
std::vector<std::string> SummarySentences(const Json& report);

// The sentences and the layer × head table of first roles.
std::string SummaryText(const Json& report, const Console& console);

}  // namespace headwise
