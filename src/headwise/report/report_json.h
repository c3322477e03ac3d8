// headwise.report/1: what is known of every head of a model, as one JSON
// object. docs/report.schema.json describes it; the page and the summary read
// it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/model/summary.h"
#include "headwise/report/head_content.h"
#include "headwise/report/head_samples.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// What a report is made of. Null parts are left out of it; `absent` says why.
struct ReportParts {
  struct Absent {
    std::string part;  // "importance", "similarity", …
    std::string why;   // a sentence
  };

  const Model* model = nullptr;          // required
  const Tokenizer* tokenizer = nullptr;  // null: tokens are shown as numbers
  const Profile* profile = nullptr;      // required
  const ModelSummary* summary = nullptr;
  std::vector<std::string> texts;  // names of what was read
  const std::vector<HeadRoles>* roles = nullptr;
  const Ranking* ranking = nullptr;
  const Similarity* similarity = nullptr;
  const Composition* composition = nullptr;
  const HeadSamples* samples = nullptr;
  const HeadContents* contents = nullptr;
  std::vector<Absent> absent;
};

Json ReportJson(const ReportParts& parts);

}  // namespace headwise
