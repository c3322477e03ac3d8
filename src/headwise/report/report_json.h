// headwise.report/1: what is known of every head of a model, as one JSON
// object. docs/report.schema.json describes it; the page and the summary read
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/compose.h"
#include "headwise/drawing/text.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/report/head_evidence.h"
#include "headwise/roles.h"
#include "headwise/similar.h"

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

// Its parts. "importance": also sets "importance" of every head in `heads`,
// which are those of the ranking, in its order.
Json ImportanceJson(const Ranking& ranking, Json& heads);
Json SimilarityJson(const HeadSimilarity& similarity);
// The edges that are most above their baseline.
Json CompositionJson(const Composition& composition);

// {"with_role", "only_shape", "thirds": [{"name", "layers", "heads", "counts":
// {role: heads}}]}: in thirds each head counts once, by its first role without
// its parameter.
Json ThirdsJson(const std::vector<HeadRoles>& roles);

// "It copies: …", "It suppresses: …" or neither, by "copying.run" of the
// profile alone, or why that is not known. `head`: an index of its heads.
std::string CopyingSentence(const Profile& profile, size_t head);

// In plain words what a reader should know first, from a report that has all
// else.
std::vector<std::string> SummarySentences(const Json& report);
// These and the layer × head table of first roles.
std::string SummaryText(const Json& report, const Console& console);

}  // namespace headwise
