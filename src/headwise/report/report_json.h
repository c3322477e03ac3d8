// headwise.report/1: what is known of every head of a model, as one JSON
// object. docs/report.schema.json describes it; the page and the summary read
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/heads.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/report/head_content.h"
#include "headwise/report/head_samples.h"

namespace headwise {

// What a report is made of. Parts without a value are left out of it; `absent`
// says why.
struct ReportParts {
  struct Absent {
    std::string part;  // "importance", "similarity", …
    std::string why;   // a sentence
  };

  const Transformer& model;  // without a tokenizer, tokens are numbers
  Profile profile = {};
  std::vector<std::string> texts = {};  // names of what was read
  std::vector<HeadRoles> roles = {};    // one a head of the profile
  std::optional<Ranking> ranking = {};
  std::optional<HeadSimilarity> similarity = {};
  std::optional<Composition> composition = {};
  std::optional<HeadSamples> samples = {};
  std::optional<HeadContents> contents = {};
  std::vector<Absent> absent = {};
};

Json ReportJson(const ReportParts& parts);

}  // namespace headwise
