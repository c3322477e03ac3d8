// Semantic similarity: does a head read tokens that mean the same? The rank
// correlation, over the keys a row sees, between its attention and the cosine
// of the input embeddings, positions left out. Beside it the same with the
// vocabulary's embeddings permuted, which keeps everything but the meaning.
#pragma once

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/model/model.h"
#include "headwise/observation.h"

namespace headwise {

// Where heads of a call stand in a profile: head h is first + h.
struct ProfilePlace {
  Profile* profile = nullptr;
  size_t first = 0;
};

void PrepareSemantic(Profile& profile);

// Ranks of n values, ties at their mean, less the mean of all; and their norm.
struct Ranks {
  std::vector<double> centred;
  double norm = 0;
};

// A sampled row: the keys that count, and the ranks of their cosines.
struct SemanticSample {
  RowRef ref;
  std::vector<int32_t> keys;
  Ranks cosine, permuted;
};

// Rows drawn by the windows' hashes: one in 256, at least one and at most four
// a window. Self, adjacent, same-token, same-word, first and special keys are
// left out; rows with fewer than 8 others do not count.
// `embeddings` [vocabulary, d] and the context are of the host.
std::vector<SemanticSample> DrawSemantic(Context& host, const SiteNotes& site,
                                         const Parameter& embeddings);

// Adds the correlations of a call's heads on those rows.
void AddSemantic(Context& context, const HeadSource& source,
                 const SiteResults& results,
                 std::span<const SemanticSample> samples, ProfilePlace place);

// Spearman's rank correlation of a and b with ties at their mean rank; 0 where
// one of them is constant. a, b: [n].
double RankAgreement(std::span<const float> a, std::span<const float> b);

}  // namespace headwise
